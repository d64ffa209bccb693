"""The Try page in Chromium: a cell, a slider, Decode, history, bad input, the blanks."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def hand(page, app_url):
    """The Try page, opened with the tutorial's example. Nothing moves: the stage on the other page would take the time."""
    page.emulate_media(reduced_motion="reduce")
    page.goto(app_url)
    page.get_by_role("tab", name="Try").click()
    opened = page.locator(".mtviz-try")
    expect(opened.locator(".column")).to_have_count(4)
    return opened


def verdicts(hand):
    return hand.locator(".column").evaluate_all("columns => columns.map((column) => column.dataset.verdict)")


def cell(hand, row, field):
    return hand.locator(f'input[data-row="{row}"][data-field="{field}"]')


def slide(hand, field, value):
    hand.locator(f'input[type="range"][data-field="{field}"]').fill(str(value))


def history(hand):
    return hand.locator(".history tbody tr")


def test_a_round_by_hand(hand, page):
    assert verdicts(hand) == ["accepted", "accepted", "rejected", "unproposed"]
    expect(hand.locator(".caption")).to_contain_text("30 is refused: 0.20 < 0.6 × 0.50 = 0.30")
    expect(history(hand)).to_have_count(0)

    cell(hand, 3, "target_prob").fill("0.9")
    expect(hand.locator(".caption")).to_contain_text("All 3 accepted: [10, 20, 30]")
    slide(hand, "max_proposal_len", 4)
    expect(hand.locator(".caption")).to_contain_text("31 is refused")
    slide(hand, "min_accept_ratio", 0.3)
    expect(hand.locator(".caption")).to_contain_text("All 4 accepted")
    expect(hand.locator(".program pre").first).to_contain_text("MultiTokenDecoderSim(max_proposal_len=4, min_accept_ratio=0.3)")
    expect(history(hand)).to_have_count(0)  # judging is not decoding

    hand.get_by_role("button", name="Decode").click()
    expect(history(hand)).to_have_count(1)
    hand.get_by_role("button", name="A round that gives nothing").click()
    expect(hand.locator(".caption")).to_contain_text("Accepted []. 4 is refused")
    cell(hand, 1, "token").press("Enter")
    expect(history(hand)).to_have_count(2)
    assert history(hand).nth(1).locator("td").all_text_contents() == ["[4, 8, 8, 15]", "[]", "0", "0", "[4, 8, 8, 15]"]

    page.get_by_role("tab", name="Watch").click()
    page.get_by_role("tab", name="Try").click()
    expect(history(hand)).to_have_count(2)
    hand.get_by_role("button", name="Clear").click()
    expect(history(hand)).to_have_count(0)


def test_bad_input_loses_nothing(hand):
    hand.get_by_role("button", name="Decode").click()
    expect(history(hand)).to_have_count(1)
    bad = cell(hand, 2, "draft_prob")
    bad.fill("half")
    error = hand.get_by_role("alert")
    expect(error).to_contain_text("Row 2: draft prob. must be a number from 0 to 1; got “half”.")
    expect(bad).to_have_attribute("aria-invalid", "true")
    hand.get_by_role("button", name="Decode").click()
    expect(bad).to_have_value("half")
    expect(history(hand)).to_have_count(1)
    assert verdicts(hand) == ["accepted", "accepted", "rejected", "unproposed"]  # the last round that could be judged
    bad.fill("0.9")
    expect(error).to_be_hidden()
    expect(hand.locator(".caption")).to_contain_text("Accepted [10, 20]")

    for _ in range(4):
        hand.locator(".remove").first.click()
    expect(error).to_contain_text("The table has 0 rows; it takes from 1 to 8")
    hand.get_by_role("button", name="Add a row").click()
    expect(error).to_be_hidden()
    expect(hand.locator(".column")).to_have_count(1)


def test_the_blanks_say_why(hand):
    hand.locator(".blanks summary").click()
    hand.get_by_text("break", exact=True).check()
    expect(hand.locator('[data-blank="verify"] .answer')).to_contain_text("✗")
    for right in ("list(draft_tokens)[: self.max_proposal_len]", "target_prob >= self.min_accept_ratio * draft_prob",
                  "return accepted, i", "[] if rejected_at is None else proposed[rejected_at:]"):  # fmt: skip
        hand.get_by_role("radio", name=right, exact=True).check()
    expect(hand.locator(".done")).to_contain_text("All four stand")


def test_a_bet_hides_the_verdicts_until_it_is_placed(hand, page):
    hand.get_by_role("button", name="Bet on a round").click()
    expect(hand.locator(".caption")).to_have_text("Where does it stop? Click a column.")
    judged = verdicts(hand)
    expect(hand.locator(".sign").first).to_be_hidden()
    expect(hand.locator(".returns")).to_be_hidden()
    assert all(label.startswith("Bet that") for label in hand.locator(".column").evaluate_all("columns => columns.slice(0, 3).map((column) => column.ariaLabel)"))
    if "rejected" in judged:
        hand.locator(".column").nth(judged.index("rejected")).press("Enter")
    else:
        hand.get_by_role("button", name="all stay").click()
    expect(hand.locator(".caption")).to_contain_text("Right. Bets: 1/1.")
    expect(hand.locator(".sign").first).to_be_visible()
    expect(history(hand)).to_have_count(0)
    hand.get_by_role("button", name="Bet on a round").click()
    cell(hand, 1, "target_prob").fill("0.9")  # who types gives the bet up
    expect(hand.locator(".caption")).not_to_contain_text("Where")


def test_a_phone_needs_no_sideways_scroll_and_speaks_chinese(browser, app_url):
    context = browser.new_context(viewport={"width": 360, "height": 780}, locale="zh-CN", reduced_motion="reduce")
    page = context.new_page()
    page.goto(app_url)
    page.get_by_role("tab", name="动手").click()
    expect(page.locator(".mtviz-try .caption")).to_contain_text("30 被拒绝")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()
