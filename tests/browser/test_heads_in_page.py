"""The Heads page in Chromium: drawn from the files, moved by its controls, a live comparison, a phone."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from mtviz.service import ASSETS
from mtviz.stored import stored_heads

pytestmark = pytest.mark.browser


@pytest.fixture
def heads(page, app_url):
    page.emulate_media(reduced_motion="reduce")
    page.goto(app_url)
    page.get_by_role("tab", name="Heads").click()
    opened = page.locator(".mtviz-heads")
    expect(opened.locator("svg.wiring")).to_have_count(4)
    return opened


def test_it_draws_what_the_files_say_and_nothing_else(heads):
    stored = stored_heads(ASSETS / "heads")
    for family in ("parallel", "hierarchical", "mtp"):
        card = heads.locator(f'.family[data-family="{family}"]')
        if family in stored:
            expect(card.locator(".figures")).to_contain_text(f"{stored[family]['draft_ids']:,} token ids")
            expect(card.locator(".figures")).to_contain_text(f"{stored[family]['bytes'] / 1e6:.1f} MB")
        else:
            expect(card.locator(".missing")).to_contain_text("Not trained yet")
    recorded = {path.stem.partition(".")[2] for path in (ASSETS / "traces" / "compare").glob("rain.*.json")}
    for run in heads.locator(".run").all():
        family = run.get_attribute("data-family")
        if family not in recorded:
            expect(run.locator(".figures")).to_have_text("not recorded yet")
            continue
        trace = json.loads((ASSETS / "traces" / "compare" / f"rain.{family}.json").read_text(encoding="utf-8"))
        expect(run.locator(".pass")).to_have_count(len(trace["rounds"]))
        expect(run.locator(".figures")).to_contain_text(f"{len(trace['rounds'])} rounds")


def test_the_controls_move_what_they_name(heads):
    heads.locator('[data-field="staircase-heads"]').fill("3")
    heads.locator('[data-field="staircase-row"]').fill("7")
    expect(heads.locator(".staircase .telling")).to_contain_text("2 heads have no label here")
    assert heads.locator('.staircase tr[aria-current="true"] td.label').all_text_contents() == ["+1"]

    heads.locator('[data-field="schedule-heads"]').fill("5")
    heads.locator('[data-field="schedule-steps_per_head"]').fill("120")
    first = heads.locator(".schedule").first
    expect(first.locator(".fill")).to_have_count(5)
    expect(first.locator(".fill").first).to_have_text("from step 480")


@pytest.mark.model
def test_a_live_comparison_grows_and_stops(heads):
    heads.locator(".own-prompt").fill("   ")
    heads.get_by_role("button", name="Run all live").click()
    expect(heads.locator(".compare .error")).to_contain_text("prompt: is blank")
    heads.locator(".own-prompt").fill("Count from 1 to 9.")
    heads.get_by_role("button", name="Run all live").click()
    expect(heads.locator(".source")).to_contain_text("Live runs.")
    expect(heads.locator(".run .pass").nth(3)).to_be_visible(timeout=120_000)
    expect(heads.locator(".compare .error")).to_be_hidden()
    heads.get_by_role("button", name="Stop").click()
    expect(heads.get_by_role("button", name="Run all live")).to_be_visible()
    heads.get_by_role("button", name="Rain for a child").click()
    expect(heads.locator(".source")).to_contain_text("Recorded runs.")


def test_a_phone_needs_no_sideways_scroll_and_speaks_chinese(heads, page):
    """Opened wide: on a phone the page's name lies in the menu of names that do not fit."""
    page.set_viewport_size({"width": 360, "height": 780})
    page.evaluate("() => { document.querySelector('#stage .mtviz-stage').lang = 'zh'; }")
    expect(heads.locator(".headline")).to_contain_text("四种往前猜的办法")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
