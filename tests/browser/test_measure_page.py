"""The Measure page in Chromium: a recorded race to its end, the knobs of the other parts, a phone, Chinese."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from mtviz.service import ASSETS

pytestmark = pytest.mark.browser
RACE = json.loads((ASSETS / "results" / "race.json").read_text(encoding="utf-8"))


@pytest.fixture
def measure(page, app_url):
    """The page as the tour links to it. Nothing moves: the replay stands at its end."""
    page.emulate_media(reduced_motion="reduce")
    page.goto(app_url + "#race")
    opened = page.locator(".mtviz-measure")
    expect(opened.locator(".claim").first).to_be_attached()
    return opened


def shown(lane):
    return "".join(lane.locator(".spoken:visible").all_text_contents())


def test_a_recorded_race_from_its_start_to_what_it_came_to(measure, page):
    plain, drafted = measure.locator(".lane.plain"), measure.locator(".lane.drafted")
    for lane, raced, won in ((plain, RACE["lanes"][0], RACE["outcome"]["lanes"][0]), (drafted, RACE["lanes"][1], RACE["outcome"]["lanes"][1])):
        assert shown(lane).removesuffix(" ■") == raced["text"]
        expect(lane.locator(".lane-done")).to_have_text(f"done in {won['seconds']:.2f} s")
    expect(measure.locator(".race-verdict")).to_contain_text(f"{RACE['outcome']['speed_ratio']:.2f}×")
    expect(measure.locator(".same-text")).to_contain_text("identical" if RACE["outcome"]["difference"] is None else "part at")
    expect(measure.locator(".why-speed")).to_contain_text(f"{RACE['outcome']['round']['cost']:.2f} plain passes")
    expect(measure.locator("#race .origin")).to_have_text(f"recorded {RACE['provenance']['date']}")

    # Scrubbing by keyboard goes back to where only the first tokens stand.
    scrub = measure.locator(".scrub")
    scrub.focus()
    page.keyboard.press("Home")
    assert shown(plain) == shown(drafted) == ""
    page.keyboard.press("End")
    assert shown(drafted).removesuffix(" ■") == RACE["lanes"][1]["text"]
    measure.locator(".race-keys .play").click()
    expect(measure.locator(".race-keys .play")).to_have_attribute("aria-label", "Pause")
    measure.locator(".race-keys .play").click()
    expect(measure.locator(".race-keys .play")).to_have_attribute("aria-label", "Play")


def test_bad_input_to_a_live_race_is_a_message_and_the_prompt_stays(measure):
    form = measure.locator(".race-form")
    form.locator("textarea").fill("   ")
    form.get_by_role("button", name="Race", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("prompt: is blank")
    expect(form.locator("textarea")).to_have_value("   ")
    expect(form.get_by_role("button", name="Race", exact=True)).to_be_enabled()


@pytest.mark.model
def test_a_live_race_is_measured_and_replayed(measure):
    form = measure.locator(".race-form")
    form.locator("textarea").fill("Name three colours.")
    form.get_by_role("button", name="Race", exact=True).click()
    expect(form.get_by_role("button", name="Stop")).to_be_visible()
    expect(measure.locator("#race .origin")).to_have_text("measured just now", timeout=180_000)
    expect(measure.locator(".asked")).to_contain_text("Name three colours.")
    assert shown(measure.locator(".lane.plain")) == shown(measure.locator(".lane.drafted")) != ""
    expect(form.get_by_role("button", name="Race", exact=True)).to_be_enabled()


def test_the_memory_is_measured_again_in_a_process_of_its_own_beside_the_recorded_one(measure):
    again = measure.locator("[data-asked=memory]")
    again.get_by_role("button", name="Measure again here").click()
    expect(again.get_by_role("button", name="Stop")).to_be_visible()
    part = measure.locator("#measure-memory")
    expect(part.locator("td.fresh")).to_have_count(2, timeout=180_000)
    kept = json.loads((ASSETS / "results" / "memory.json").read_text(encoding="utf-8"))
    for cell, recorded in zip(part.locator("td.fresh").all_text_contents(), kept["peak_bytes"].values()):
        assert 0.5 < float(cell.removesuffix(" MB")) * 1e6 / recorded < 2
    expect(part.locator(".origin[data-live=yes]")).to_have_text("measured just now")
    expect(again.get_by_role("button", name="Stop")).to_be_hidden()


@pytest.mark.model
def test_a_sweep_tells_its_size_and_its_progress_and_can_be_stopped(measure):
    again = measure.locator("[data-asked=lengths]")
    expect(again.locator(".note")).to_contain_text("9 ways × 2 prompts × 32 tokens")
    go, status = again.get_by_role("button", name="Measure again here"), again.get_by_role("status")
    go.click()
    expect(status).to_contain_text("of 36", timeout=180_000)
    again.get_by_role("button", name="Stop").click()
    expect(status).to_have_text("Stopped.")
    expect(go).to_be_enabled()


def test_on_a_phone_nothing_goes_sideways_and_chinese_is_whole(measure, page):
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    claims = measure.locator(".claim").count()
    page.evaluate("() => { document.querySelector('.mtviz-stage').lang = 'zh'; }")
    expect(measure.locator(".headline")).to_contain_text("实测")
    assert measure.locator(".claim").count() == claims
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    assert not [text for text in measure.locator("h3, h4, .lead, .claim-text, .claim-measured, .legend span").all_text_contents() if "{" in text]
