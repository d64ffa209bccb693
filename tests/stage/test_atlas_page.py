"""Knobs that act on whole recorded runs, in a real browser, on an atlas of a scripted trunk."""

from __future__ import annotations

import json

import pytest
from recorded import wordy_atlas

from mtviz.atlas import THRESHOLDS, expand
from mtviz.settings import BOUNDS, CHOICES, MAX_PROMPT_CHARACTERS
from mtviz.trace import counts, schema
from mtviz.views.stage import STAGE, stage_script, stage_style

pytestmark = pytest.mark.browser

STRINGS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (STAGE.parent / "i18n").glob("*.json")}
GLOSSARY = json.loads((STAGE.parent / "glossary.json").read_text(encoding="utf-8"))
SLIDE = """(element, value) => { element.value = value; element.dispatchEvent(new Event('input', { bubbles: true })); return document.querySelector('.badge').textContent; }"""


@pytest.fixture(scope="module")
def atlas():
    return json.loads(json.dumps(wordy_atlas()))


@pytest.fixture
def page(browser, atlas, tmp_path):
    first = expand(atlas, (4, 0.5))
    config = {
        "bounds": {name: vars(bound) for name, bound in BOUNDS.items()}, "defaults": first["settings"], "schema": schema(), "choices": CHOICES,
        "presets": [{"name": "made", "atlas": "made", "title": "Made", "teaches": "", "prompt": "Once", "settings": {}}],
        "max_prompt_characters": MAX_PROMPT_CHARACTERS, "status": {"live": False, "text": "none"}, "first": first, "strings": STRINGS, "glossary": GLOSSARY, "language": "en",
    }
    path = tmp_path / "page.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>body{{margin:8px}}{stage_style()}</style>'
        f'<div class="mtviz-stage"></div><script>{stage_script()}\nwindow.asked = []; window.sent = [];'
        f"const atlas = {json.dumps(atlas)};"
        f"window.stage = mountStage(document.querySelector('.mtviz-stage'), {{config: {json.dumps(config)}, canDecode: true, decode: (p) => sent.push(p), stop() {{}},"
        "loadPreset: async () => structuredClone(window.first), loadAtlas: async (name) => { asked.push(name); return atlas; }});"
        "requestAnimationFrame(() => requestAnimationFrame(() => { window.askedAtFirstPaint = asked.length; }));</script>",
        encoding="utf-8",
    )
    opened = browser.new_page(viewport={"width": 1280, "height": 800})
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(path.as_uri())
    yield opened
    assert problems == []
    opened.close()


def halt(page):
    """Halts the opening play, at which the atlas is fetched."""
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_selector(".hold:visible")


def slide(page, threshold) -> str:
    return page.locator(".rail .threshold").evaluate(SLIDE, threshold)


def shown(page) -> str:
    return page.locator(".whole .sentence").inner_text()


def squeezed(text) -> str:
    return " ".join(text.split())


def test_the_atlas_is_fetched_at_the_first_halt_and_not_before(page):
    halt(page)
    assert page.evaluate("askedAtFirstPaint") == 0 and page.evaluate("asked") == ["made"]
    assert page.inner_text(".badge") == "recorded run" and not page.is_visible(".whole")


def test_the_threshold_chooses_a_whole_recorded_run(page, atlas):
    halt(page)
    for threshold in (0.07, 0.9):
        column = min(range(9), key=lambda i: abs(THRESHOLDS[i] - threshold))
        trace = expand(atlas, (4, THRESHOLDS[column]))
        assert slide(page, threshold) == f"recorded run {27 + column + 1}/72"  # said before the event is over: nothing is waited for
        assert squeezed(shown(page)) == squeezed("Once\n" + trace["output"]["text"])
        assert page.inner_text(".knob-value") == f"{THRESHOLDS[column]:.2f}" and float(page.input_value(".rail .threshold")) == THRESHOLDS[column]
        assert page.locator(".strip").get_attribute("aria-valuemax") == str(len(trace["rounds"]) + 1)
        assert page.inner_text(".big-number") == f"{counts(trace)['mean_acceptance_length']:.2f}"
        assert f"mean TV {counts(trace)['mean_bias_tv']:.2f}" in page.inner_text(".drift")
        exact = set(expand(atlas, (1, None))["output"]["text"].split())
        dotted = page.locator(".said.differs").all_inner_texts()
        assert page.inner_text(".drift").startswith(f"{len(dotted)} of " if dotted else "Word for word")
        assert set(trace["output"]["text"].split()) - exact <= {*dotted}


# The changeover, held still at any moment of it: where each word of both texts stands, how visible each is, and the strip.
SAMPLE = """(at) => {
    const moving = document.getAnimations().filter(({ effect }) => effect.target?.matches('.said, .strip canvas'));
    for (const one of moving) { one.pause(); one.currentTime = at; }
    const seen = (element) => Number(getComputedStyle(element).opacity);
    return {
        durations: moving.map(({ effect }) => effect.getTiming().duration),
        words: [...document.querySelectorAll('.said')].map((word) => ({ text: word.textContent, ...word.getBoundingClientRect().toJSON(), seen: seen(word) })),
        strip: [...document.querySelectorAll('.strip canvas')].map(seen),
    };
}"""


def test_another_run_takes_the_stage_before_one_s_eyes(page):
    """Words that stay travel from where they stood, new ones and the film strip fade in, and within 200 ms all is in place."""
    halt(page)
    slide(page, 0.9)
    before = page.evaluate(SAMPLE, 200)
    page.locator(".rail .threshold").evaluate(SLIDE, 0.07)
    moments = [page.evaluate(SAMPLE, at) for at in (0, 45, 90, 135, 179)]
    assert moments[0]["durations"] and max(moments[0]["durations"]) <= 200
    page.evaluate("document.getAnimations().forEach((one) => one.effect.target?.matches('.said, .strip canvas') && one.finish())")
    after = page.evaluate(SAMPLE, 200)

    def places(moment, axis):
        return [word[axis] for word in moment["words"]]

    def steadily(values):
        return all(a <= b + 0.01 for a, b in zip(values, values[1:])) or all(a >= b - 0.01 for a, b in zip(values, values[1:]))

    paths = list(zip(*([(word["x"], word["y"]) for word in one["words"]] for one in (*moments, after))))
    travelled = [path for path in paths if abs(path[0][0] - path[-1][0]) + abs(path[0][1] - path[-1][1]) > 2]
    assert travelled and all(steadily([place[i] for place in path]) for path in travelled for i in (0, 1))
    assert all(len(set(path)) > 3 for path in travelled)  # between the two places, not jumped
    stood = {(round(word["x"]), round(word["y"])) for word in before["words"]}
    assert {(round(x), round(y)) for (x, y), *_ in travelled} <= stood  # from where a word of the old text stood
    appearing = [path for path in zip(*(places(one, "seen") for one in moments)) if path[0] == 0]
    assert appearing and all(steadily(path) and 0 < path[2] < 1 for path in appearing)
    fresh, old = zip(*(one["strip"] for one in moments))
    assert steadily(fresh) and steadily(old) and 0 < fresh[2] < 1 and 0 < old[2] < 1
    assert all(word["seen"] == 1 for word in after["words"]) and page.locator(".strip canvas:visible").count() == 1


def test_with_reduced_motion_another_run_stands_there_at_once(page):
    page.emulate_media(reduced_motion="reduce")
    halt(page)
    slide(page, 0.9)
    slide(page, 0.07)
    assert page.evaluate(SAMPLE, 0)["durations"] == [] and page.locator(".strip canvas:visible").count() == 1


def test_in_exact_the_text_does_not_move_when_the_length_changes(page, atlas):
    halt(page)
    page.get_by_text("Exact", exact=True).click()
    assert page.inner_text(".badge") == "recorded run 4/8"
    places = "[...document.querySelectorAll('.said')].map((word) => [word.textContent, ...Object.values(word.getBoundingClientRect().toJSON())])"
    page.wait_for_function("document.getAnimations().every(({ effect }) => !effect.target?.matches('.said'))")
    before = page.evaluate(places)
    page.focus(".brace-handle")
    for n in (5, 6, 7, 8):
        page.keyboard.press("ArrowRight")
        assert page.inner_text(".badge") == f"recorded run {n}/8"
        assert page.evaluate(places) == before and page.evaluate("document.getAnimations().filter(({ effect }) => effect.target?.matches('.said')).length") == 0
        assert page.locator(".strip").get_attribute("aria-valuemax") == str(len(expand(atlas, (n, None))["rounds"]) + 1)
    assert page.inner_text(".drift").startswith("Word for word the Exact text ✓") and page.locator(".said.differs").count() == 0


def test_a_held_round_is_judged_again_and_let_go_again(page):
    halt(page)
    place = page.inner_text(".where")
    page.click(".hold")
    assert slide(page, 0.07) == "this round only" and page.inner_text(".where") == place and not page.is_visible(".whole")
    assert float(page.input_value(".rail .threshold")) == 0.07  # between recorded thresholds
    page.click(".hold")
    assert page.inner_text(".badge") == "recorded run 28/72" and page.is_visible(".whole")


def test_keys_go_from_one_recorded_threshold_to_the_next(page):
    halt(page)
    slide(page, 0.4)
    page.focus(".rail .threshold")
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".knob-value") == "0.30"
    page.keyboard.press("End")
    assert page.inner_text(".knob-value") == "1.00"


def test_another_prompt_leaves_the_atlas_and_a_live_run_is_no_part_of_it(page, atlas):
    halt(page)
    assert slide(page, 0.07).startswith("recorded run 28")
    page.fill(".prompt-input", "Twice")
    assert slide(page, 0.9) == "this round only"
    page.click(".decode")
    assert page.evaluate("sent[0].prompt") == "Twice"
    live = {"run": 1, "source": "live", "busy": False, "trace": expand(atlas, (4, 0.9))}
    page.evaluate("value => stage.show(value)", live)
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")  # past the prefill, which judges nothing
    assert page.inner_text(".badge") == "live run" and not page.is_visible(".hold")
    assert slide(page, 0.07) == "this round only"


def test_playing_shows_the_text_as_it_grows(page):
    halt(page)
    slide(page, 0.07)
    assert page.is_visible(".whole")
    page.focus(".strip")
    page.keyboard.press(" ")
    page.wait_for_selector(".sentence-box > .sentence:visible")
    assert not page.is_visible(".whole") and page.inner_text(".badge").startswith("recorded run 28/72")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_scrolls_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 640})
    halt(page)
    if width == 360:
        page.click(".sheet-button")
        page.locator(".sheet-ranges [data-field=threshold]").evaluate(SLIDE, 0.07)
    else:
        slide(page, 0.07)
    assert page.is_visible(".whole") and page.evaluate("document.documentElement.scrollWidth") <= width
