"""From a pasted text to decoding with the model that was trained on it, as a visitor does it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

PATIENCE = 150_000  # ms: the training shares two cores with everything else
SENTENCE = "The little red boat sails at dawn, and the little grey gull sails after it. "
pytestmark = [pytest.mark.browser, pytest.mark.model, pytest.mark.slow]


def test_a_pasted_text_becomes_a_model_that_decodes_on_the_stage(page, app_url, tmp_path):
    page.goto(app_url)
    page.get_by_role("tab", name="Heads").click()
    train = page.locator("#train")
    text = train.locator("textarea")
    text.fill("one line")
    train.locator("[data-field=heads]").fill("3")
    train.locator("[data-field=minutes]").fill("0.05")
    train.locator(".start").click()
    expect(train.locator(".refusal")).to_contain_text("has 8 bytes; training takes 1,000 to 1,000,000 bytes")
    expect(text).to_have_attribute("aria-invalid", "true")
    assert text.input_value() == "one line"  # nothing is lost

    text.fill(SENTENCE * 60)
    train.get_by_role("radio", name="parallel").check()
    train.locator(".start").click()
    expect(train.locator(".finished")).to_be_visible(timeout=PATIENCE)
    expect(train.locator(".refusal")).to_be_hidden()
    assert train.locator("svg").first.locator("path.line").count() == 3
    expect(train.locator(".samples li").first).to_be_visible()
    with page.expect_download() as downloading:
        train.locator(".download").click()
    downloading.value.save_as(tmp_path / "own.safetensors")
    train.locator(".load input").set_input_files(tmp_path / "own.safetensors")
    expect(train.locator(".finished")).to_be_visible()

    train.locator(".use").click()
    stage = page.locator("#stage")
    expect(stage.locator(".badge")).to_have_text("live run", timeout=PATIENCE)
    expect(stage.locator(".column").first).to_be_visible()
    stage.locator(".advanced-button").click()
    expect(stage.locator(".own-model")).to_be_visible()
    expect(stage.locator("input[name=mtviz-drafter][value=parallel]")).to_be_checked()


def test_the_shipped_model_of_bytes_decodes_at_one_click(page, app_url):
    page.goto(app_url)
    page.get_by_role("tab", name="Heads").click()
    page.locator("#train .use-shipped").click()
    stage = page.locator("#stage")
    expect(stage.locator(".badge")).to_have_text("live run", timeout=PATIENCE)
    expect(stage.locator(".column").first.locator(".chip").first).to_have_text(re.compile(r"^\S$"))  # a byte, not a piece of a word
    stage.locator(".advanced-button").click()
    expect(stage.locator("input[name=mtviz-model][value=bytes]")).to_be_checked()
    expect(stage.locator("input[name=mtviz-drafter][value=hierarchical]")).to_be_checked()


def test_closing_the_tab_ends_the_training(context, app_url):
    page = context.new_page()
    page.goto(app_url)
    page.get_by_role("tab", name="Heads").click()
    train = page.locator("#train")
    train.locator("[data-sample=docs]").click()
    train.locator(".start").click()
    expect(train.locator(".pause")).to_be_visible(timeout=PATIENCE)
    assert trainings()
    page.close()
    deadline = time.monotonic() + 60
    while trainings() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not trainings()


def trainings() -> list[Path]:
    """Processes that a page has started to train in (Linux)."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if b"own bytes" in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
