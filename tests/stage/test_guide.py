"""The first minutes in a real browser: the opening that halts at a bet, the tour, what the browser remembers, the glossary."""

from __future__ import annotations

import json

import pytest
from access import serious_faults
from made_up import GLOSSARY, STRINGS, made

pytestmark = pytest.mark.browser
EN = STRINGS["en"]

# Frames come at once, each a tenth of a second after the last: ten seconds of playing take a hundred frames.
SEEN = "window.seen = []; setInterval(() => { const where = document.querySelector('.where')?.textContent; if (where && seen.at(-1) !== where) seen.push(where); }, 0);"
FAST = "(() => { let now = 0; performance.now = () => now; window.requestAnimationFrame = (draw) => setTimeout(() => draw((now += 100)), 0); })();"
BLOCKED = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('blocked'); } });"


def again(page, init=""):
    """The same page, loaded anew in the same browser."""
    page.add_init_script(init or ";")
    page.reload()
    return page


def place(page):
    return page.text_content(".where")


def caption(page):
    return page.text_content(".caption")


def stored(page):
    return page.evaluate("({ ...localStorage })")


def answer(page, trace):
    """Where the round on the stage stops, from its Trace: column from 0, or their number."""
    drafts = trace["rounds"][int(place(page).split()[1]) - 1]["drafts"]
    return sum(draft["verdict"] == "accepted" for draft in drafts)


def test_the_opening_plays_a_round_and_three_faster_ones_and_halts_with_the_gates_shut(open_stage):
    trace = made("{}")
    page = again(open_stage(trace), SEEN + FAST)
    telling = [0 < sum(one["verdict"] == "accepted" for one in round_["drafts"]) < len(round_["drafts"]) for round_ in trace["rounds"]]
    opening = next(i for i in range(len(telling)) if telling[i] and telling[i + 4])
    page.wait_for_selector(".columns[data-bet=asked]")
    assert caption(page).startswith("Where does it stop? Click.")
    assert [where.split()[1] for where in page.evaluate("seen")] == [str(opening + 1 + i) for i in range(5)]
    # All that judges can be seen, and nothing that was judged: not by a screen reader either, nor on the film strip.
    assert page.evaluate("[...document.querySelectorAll('.column:not(.emitted)')].every((c) => c.style.getPropertyValue('--drop') === '1' && c.dataset.shown === 'no')")
    labels = page.evaluate("[...document.querySelectorAll('.column')].map((c) => c.ariaLabel)")
    assert all(label.startswith("Bet that") for label in labels)
    assert page.evaluate("getComputedStyle(document.querySelector('.strip-veil')).opacity") == "1"

    right = answer(page, trace)
    page.locator(".column").nth(right).click()
    page.wait_for_function("document.querySelector('.caption').textContent.startsWith('Right.')")
    assert json.loads(stored(page)["mtviz.bets"]) == {"right": 1, "made": 1}
    page.keyboard.press("b")
    page.wait_for_selector(".columns[data-bet=asked]")
    page.locator(".column").nth(0 if answer(page, trace) else 1).press("Enter")
    page.wait_for_function("document.querySelector('.caption').textContent.startsWith('Not there.')")
    assert caption(page).endswith("Bets: 1/2.")


def test_the_tour_by_keyboard_drives_the_page(open_stage):
    page = open_stage(made("{}"), reduced_motion="reduce")
    page.keyboard.press(str(answer(page, page.evaluate("config.first")) + 1))
    assert caption(page).startswith("Right.")
    page.keyboard.press("n")
    assert caption(page) == EN["tour.threshold"]
    for _ in range(20):
        page.keyboard.press("ArrowDown")
    assert caption(page).startswith("At 0.3, ") and page.text_content(".badge") == "this round only"
    kept = page.locator(".column[data-verdict=accepted]").count()
    assert f"{kept} of 4 stay" in caption(page)
    page.keyboard.press("n")
    assert page.get_attribute(".mtviz-stage", "data-tour") == "length"
    page.keyboard.press("ArrowLeft")
    assert caption(page).startswith("3 a round.")
    page.keyboard.press("n")  # no page with a race here: it is passed over
    assert caption(page) == EN["tour.exact"]
    page.keyboard.press("ArrowLeft")
    assert "identical to one at a time ✓" in caption(page)
    page.keyboard.press("n")
    page.keyboard.type("?")
    page.keyboard.press("Enter")
    assert page.evaluate("sent.length") == 1 and page.evaluate("sent[0].settings.rule") == "match"
    assert stored(page)["mtviz.tour"] == "6"


def test_a_tour_is_left_and_resumed_and_the_captions_come_back(open_stage):
    page = open_stage(made("{}"), reduced_motion="reduce")
    page.keyboard.press("n")
    page.click(".key.forward")  # who steps on by himself reads the captions
    assert caption(page) != EN["tour.threshold"] and page.is_hidden(".tour")
    page.click(".tour-button")
    assert caption(page) == EN["tour.threshold"]
    page.click(".tour-leave")
    assert page.is_hidden(".tour") and stored(page)["mtviz.tour.left"] == "yes"
    again(page)
    assert page.is_hidden(".tour") and page.locator("[data-bet=asked]").count() == 0
    page.keyboard.press("t")
    assert caption(page) == EN["tour.threshold"]


def test_a_link_is_not_greeted_with_a_question(open_stage):
    page = open_stage(made("{}"), link="#prompt=Why&seed=3", reduced_motion="reduce")
    assert page.locator("[data-bet=asked]").count() == 0 and page.is_hidden(".tour")


def test_the_language_is_remembered_and_all_works_where_storage_is_blocked(open_stage):
    page = open_stage(made("{}"), reduced_motion="reduce")
    page.click(".advanced-button")
    page.click(".tool.language")
    assert caption(page).startswith("它停在哪里？")  # the question stands where it stood
    again(page)
    assert page.get_attribute(".mtviz-stage", "lang") == "zh"

    blocked = again(open_stage(made("{}"), reduced_motion="reduce"), BLOCKED)
    blocked.keyboard.press("5")
    assert caption(blocked).endswith("/1.")
    blocked.click(".advanced-button")
    blocked.click(".tool.language")
    assert blocked.get_attribute(".mtviz-stage", "lang") == "zh"


def test_on_a_phone_the_tour_opens_the_sheet(open_stage):
    page = open_stage(made("{}"), width=360, height=740, reduced_motion="reduce", has_touch=True)
    page.locator(".column").nth(1).tap()
    page.tap(".tour-next")
    assert page.is_visible(".sheet-ranges [data-field=threshold]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_end_in_the_first_moments_is_the_end(open_stage):
    page = again(open_stage(made("{}")), FAST)
    page.keyboard.press("End")
    last = place(page)
    page.evaluate("() => new Promise((done) => setTimeout(done, 200))")
    assert place(page) == last and last.split()[1] == last.split()[3]


def test_words_of_the_stage_lead_to_their_cards_and_tokens_do_not(open_stage):
    page = open_stage(made("{ pieces: ['a', ' trunk', ' gate', ' b', ' c'], skill: 9 }"), reduced_motion="reduce")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.text_content(".caption .term") == "trunk pass" and page.locator(".column:not(.emitted) .term").count() == 0
    page.click(".speaker.trunk .term")
    card = page.locator(".cards .here")
    assert card.get_attribute("data-card") == "trunk" and "Only its probabilities count" in card.inner_text()
    assert card.evaluate("(card) => [...card.childNodes].map(({ nodeName }) => nodeName)") == ["H4", "P"]  # it names no paper
    page.keyboard.press("Escape")
    assert page.is_hidden(".cards")
    page.focus(".column")
    page.keyboard.press("Enter")
    page.locator(".microscope .rule-words .term").first.click()
    assert page.is_visible(".cards")


def test_what_prevents_misconceptions_is_seen(open_stage):
    trace = made("{ threshold: 1 }")
    round_ = next(one for one in trace["rounds"] if one["drafts"][0]["verdict"] == "accepted")
    round_["drafts"][0]["trunk_token"] = {"id": 1, "text": " sky"}  # accepted, and not the trunk's own choice
    trace["rounds"] = [round_]
    page = open_stage(trace, reduced_motion="reduce")
    page.keyboard.press("End")
    assert page.text_content(".big-most") == "ceiling 5 = 4 guessed + 1"  # k guesses are not k times faster
    assert page.locator(".column[data-own=no]").count() == 1 and "own choice was" in page.get_attribute("[data-own=no] .sign", "title")
    assert page.text_content(".knob-note") == EN["rail.ratio.one"]  # threshold 1 is not exact
    assert page.get_attribute(".speaker.heads", "title").startswith("Prediction heads, not attention heads")
    page.locator(".column").nth(2).press("Enter")
    assert page.text_content(".microscope .panel-note") == "Given that columns 1–2 hold."
    page.keyboard.press("Escape")
    page.locator(".big").press("Enter")
    page.hover(".counts dt[data-count=acceptance_rate]")  # a count is what it counts, and no speed
    assert page.locator(".strip.lit").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_stage_has_no_serious_fault_of_accessibility(open_stage, theme):
    page = open_stage(made("{}"), reduced_motion="reduce")
    page.evaluate("(theme) => { document.documentElement.lang = 'en'; document.title = 'x'; document.documentElement.classList.toggle('dark', theme === 'dark'); document.body.style.background = theme === 'dark' ? '#0b0f14' : '#fff'; }", theme)
    assert serious_faults(page) == []  # the question, the tour
    page.keyboard.press("End")
    for opened in (".big", ".advanced-button", ".column"):
        page.locator(opened).first.press("Enter")
        assert serious_faults(page, ".mtviz-stage") == [], opened
        page.keyboard.press("Escape")
    page.keyboard.press("g")
    assert serious_faults(page, ".cards") == []


def test_every_card_is_there_in_both_languages():
    asked = {"speculative-decoding", "verification-cost", "batching", "paged-attention", "prefix-caching", "accepted", "unjudged", "recovered", "bonus", "rollback",
             "ratio", "threshold", "bias", "mean-acceptance-length", "heads", "draft-vocabulary", "kv-cache"}  # fmt: skip
    assert asked <= {card["id"] for card in GLOSSARY}
    for language in STRINGS:
        words = [word.lower() for card in GLOSSARY for word in card[language]["words"]]
        assert len(words) == len(set(words))
        assert all(card[language][part] for card in GLOSSARY for part in ("term", "text", "words"))
