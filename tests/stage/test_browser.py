"""The stage in a real browser, on made-up Traces: what is seen, copied, scrolled, and how fast it moves."""

from __future__ import annotations

import json
from contextlib import contextmanager
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from made_up import made

from mtviz.settings import MAX_PROMPT_CHARACTERS, Settings
from mtviz.trace import counts, loads

pytestmark = pytest.mark.browser

RUN = "window.stage.show({trace: %s, run: %d, source: 'live', busy: %s})"

ODD = r"""['聪', [0xe6, 0x98], [0x8e], ' ', [0xf0, 0x9f, 0x99], [0x82], ' Hello', '   ', '\n', '\n\n', '\t', 'world', '<restate here>', 'a<b & c>d', '<think>',
  '<|im_end|>', '<!--', '&amp;', '${alert(1)}', '${', '\\u', '{{x}}', '`', 'مرحبا', ' بالعالم', 'abc ', 'שלום', ' 123', 'x'.repeat(60), '字'.repeat(300), '。']"""


def whole_text(trace):
    return trace["prompt"]["text"] + "\n" + b"".join(bytes.fromhex(t["bytes"]) if "bytes" in t else t["text"].encode() for t in trace["output"]["tokens"]).decode()


def test_field_F15_F16_F17_F19_copied_text_is_the_original_whatever_the_tokens(open_stage):
    trace = made("{ prompt: 'a<b> ${x}', skill: 9, num_draft_tokens: 8, pieces: %s }" % ODD)
    page = open_stage(trace)
    page.keyboard.press("End")
    copied = page.evaluate("() => { getSelection().selectAllChildren(document.querySelector('.sentence')); return getSelection().toString(); }")
    assert copied == whole_text(trace)
    assert "\ufffd" not in page.inner_text(".mtviz-stage")


def test_field_F14_bytes_of_half_a_character_stand_as_hex_and_go_with_their_rejection(open_stage):
    trace = made("{ skill: 9, num_draft_tokens: 2, pieces: ['a', 'b', [0xe6, 0x98], 'c'] }")
    first = trace["rounds"][0]
    first["drafts"][1]["verdict"] = "rejected"
    first["emitted"] = {"kind": "recovered", "token": {"id": 5, "text": "z"}, "prob": 0.5}
    trace["rounds"] = [first]
    page = open_stage(trace)
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "E6 98" in page.inner_text(".sentence")
    page.keyboard.press("End")
    assert page.evaluate("[...document.querySelectorAll('.sentence .hex')].every((chip) => !chip.offsetParent)")
    assert page.inner_text(".columns").count("E6 98") >= 1


def test_field_F18_right_to_left_words_are_not_turned_by_their_spans(open_stage):
    trace = made("{ prompt: 'abc', skill: 9, pieces: ['مرحبا', ' بالعالم', ' x'] }")
    page = open_stage(trace)
    page.keyboard.press("End")
    first, second = page.evaluate(
        """() => { const text = [...document.querySelectorAll('.sentence .word')].filter((w) => w.offsetParent && w.textContent);
        return text.slice(0, 2).map((w) => w.getBoundingClientRect().left); }"""
    )
    assert first > second  # the second word stands left of the first
    assert page.evaluate("getComputedStyle(document.querySelector('.chip')).unicodeBidi") == "isolate"


@pytest.mark.parametrize("width", [360, 390, 768, 1024, 1280])
def test_field_F31_nothing_scrolls_sideways_with_eight_drafts_and_a_long_token(open_stage, width):
    page = open_stage(made("{ num_draft_tokens: 8, skill: 9, pieces: ['a', 'y'.repeat(60), 'x'.repeat(60), 'b', 'c', 'd', 'e', 'f', 'g', 'h'] }"), width, 640)
    page.keyboard.press("End")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_field_F32_a_second_and_third_run_start_clean_and_grow_round_by_round(open_stage):
    page = open_stage(made("{}"))
    for run, options in enumerate(["{ prompt: 'second', pieces: RAIN_TOKENS.slice(0, 20) }", "{ prompt: 'third', rule: 'match', num_draft_tokens: 2, pieces: RAIN_TOKENS.slice(0, 12) }"], 1):
        trace = made(options)
        for rounds in range(len(trace["rounds"]) + 1):
            done = rounds == len(trace["rounds"])
            growing = {**trace, "rounds": trace["rounds"][:rounds], "finish_reason": "length" if done else None}
            page.evaluate(RUN % (json.dumps(growing), run, "false" if done else "true"))
        page.keyboard.press("End")
        assert page.inner_text(".prompt").strip() == trace["prompt"]["text"]
        assert page.text_content(".where") == f"round {len(trace['rounds'])} of {len(trace['rounds'])}"
        assert page.text_content(".decode") == "Decode"


def test_an_error_names_its_field_and_loses_nothing(open_stage):
    page = open_stage(made("{}"))
    before = page.inner_text(".sentence")
    page.evaluate("stage.show({error: {field: 'prompt', message: 'prompt: is blank'}, run: 9, source: 'live', busy: false})")
    assert page.inner_text(".error") == "prompt: is blank"
    assert page.get_attribute(".prompt-input", "aria-invalid") == "true"
    assert page.inner_text(".sentence").startswith(before[:20])
    page.click(".decode")
    assert page.is_hidden(".error") and page.evaluate("sent.length") == 1


def test_keys_step_through_the_phases_of_a_round(open_stage):
    page = open_stage(made("{}"), reduced_motion="reduce")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    seen = []
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        seen.append(page.text_content(".phases [data-state=now]"))
    assert seen == ["guess", "one pass", "judge", "roll back", "emit"]
    page.keyboard.press("End")
    assert page.text_content(".unseen").startswith("Round ")


def test_a_moved_threshold_judges_this_round_again(open_stage):
    trace = made("{}")
    page = open_stage(trace, reduced_motion="reduce")
    page.eval_on_selector(".threshold", "(slider) => { slider.value = 0.01; slider.dispatchEvent(new Event('input')); }")
    assert page.text_content(".badge") == "this round only"
    assert page.locator(".column[data-verdict=rejected]").count() == 0
    page.keyboard.press("Shift+ArrowLeft")
    page.click(".decode")
    assert page.evaluate("sent[0].settings.threshold") == 0.01


def test_field_F29_a_link_restores_the_controls_and_touches_no_other_page(open_stage):
    first = open_stage(made("{}"))
    first.fill(".prompt-input", "Why 一 & + # %?\nWhy?")
    first.click(".advanced-button")
    first.check(".advanced input[value=speculative]")
    for field, value in {"num_draft_tokens": 7, "temperature": 0.8, "top_k": 40, "seed": 2**32 - 1, "max_new_tokens": 90}.items():
        first.fill(f".advanced [data-field={field}]", str(value))
        first.keyboard.press("Tab")
    first.check(".advanced [data-field=raw]")
    first.click(".tool.share")
    link = first.input_value(".address")
    first.keyboard.press("Escape")
    first.click(".decode")

    second = open_stage(made("{}"), link=link[link.index("#") :])
    assert second.input_value(".prompt-input") == "Why 一 & + # %?\nWhy?"
    assert second.is_hidden(".error") and second.text_content(".badge") == "recorded run"
    second.click(".decode")
    sent = second.evaluate("sent[0]")
    assert sent == first.evaluate("sent[0]")
    settings = Settings.from_mapping(sent["settings"])
    assert (settings.rule, settings.num_draft_tokens, settings.seed, settings.raw) == ("speculative", 7, 2**32 - 1, True)
    second.fill(".prompt-input", "beta")
    assert first.input_value(".prompt-input") == "Why 一 & + # %?\nWhy?"
    other = made("{ max_new_tokens: 3 }")
    other["model"]["revision"] = "another"
    second.evaluate(RUN % (json.dumps(other), 3, "false"))
    assert "other weights" in second.inner_text(".error")


def test_field_F29_bad_parts_of_a_link_become_defaults_with_a_note(open_stage):
    bad = {
        "prompt": "x" * (MAX_PROMPT_CHARACTERS + 1), "rule": "constructor", "drafter": "__proto__", "num_draft_tokens": "9", "threshold": "0", "temperature": "NaN",
        "top_k": "1.5", "top_p": "1e999", "seed": "-1", "max_new_tokens": "9" * 400, "epsilon": "", "raw": "maybe", "toString": "1", "<img>": "1", "delta": "0.7",
    }
    trace = made("{}")
    page = open_stage(trace, link="#" + urlencode(bad))
    page.click(".decode")
    assert page.evaluate("sent[0]") == {"prompt": trace["prompt"]["text"], "settings": {**trace["settings"], "delta": 0.7}}
    page.evaluate("location.hash = 'rule=no&seed=4'")
    page.wait_for_function("document.querySelector('.advanced [data-field=seed]').value === '4'")
    assert "(rule)" in page.inner_text(".error")
    page.evaluate("location.hash = 'top'")
    assert page.input_value(".advanced [data-field=seed]") == "4"


def test_a_run_is_saved_and_opened_again_and_junk_changes_nothing(open_stage, tmp_path):
    trace = made("{ prompt: 'saved', rule: 'match', num_draft_tokens: 2, pieces: %s }" % ODD)
    page = open_stage(trace)
    page.click(".advanced-button")
    with page.expect_download() as download:
        page.click(".tool.save")
    saved = download.value.path().read_text(encoding="utf-8")
    assert loads(saved) == trace

    other = open_stage(made("{}"))
    for junk in ("", "{", "[]", '{"schema": 1}', saved.replace('"u":0.', '"u":9.', 1), "[" * 100_000):
        other.set_input_files(".file", {"name": "<b>.json", "mimeType": "application/json", "buffer": junk.encode()})
        other.wait_for_function("document.querySelector('.error').textContent.includes('cannot be shown')")
        assert other.inner_text(".prompt").strip() == "Explain to a child how rain forms."
        other.evaluate("document.querySelector('.error').textContent = ''")
    other.set_input_files(".file", {"name": "x.json", "mimeType": "application/json", "buffer": saved.encode()})
    other.wait_for_function("document.querySelector('.badge').textContent === 'opened file'")
    assert other.is_hidden(".error") and other.input_value(".prompt-input") == "saved"
    other.keyboard.press("End")
    assert other.inner_text(".prompt").strip() == "saved"


def test_the_microscope_gives_the_numbers_of_a_draft_and_the_focus_back(open_stage):
    trace = made("{ rule: 'speculative', temperature: 1, skill: 0.3 }")
    round_ = next(one for one in trace["rounds"] if one["drafts"][0]["verdict"] == "rejected")
    draft = round_["drafts"][0]
    top = [{"token": {"id": i, "text": f"<b>{i}"}, "prob": 0.5 / (i + 1), "raw_prob": 0.25} for i in range(8)]
    draft.update(top_draft=top, top_target=top, residual=[{"token": {"id": 3, "text": " sky"}, "prob": 0.61}], bias_tv=0.0)
    trace["rounds"] = [round_]
    page = open_stage(trace, reduced_motion="reduce")
    page.keyboard.press("End")
    page.focus(".column")
    page.keyboard.press("Enter")
    panel = page.locator(".microscope")
    text = panel.inner_text()
    assert panel.is_visible()
    assert "Given the text so far." in text and f"The die fell on {draft['u']:.2f}" in text and "refuse." in text
    assert panel.locator(".law").count() == 3 and panel.locator(".law.draft tr").count() == 10  # names, the top 8, the draft itself
    assert "0.61" in text and "<b>7" in text and "exactly" in text
    page.keyboard.press("Escape")
    assert panel.is_hidden() and page.evaluate("document.activeElement.className") == "column"
    page.locator(".column").nth(1).click()
    assert "Given that column 1 holds." in panel.inner_text() and "nobody asked" in panel.inner_text()
    page.click(".microscope .close")
    page.eval_on_selector(".advanced input[value=ratio]", "(input) => input.click()")
    page.locator(".column").first.press("Enter")
    assert "below threshold" in panel.inner_text() and panel.locator(".law").count() == 2  # a what-if draws nothing anew


def test_other_runs_of_a_preset_stand_at_the_same_place_of_the_text(open_stage):
    runs = {name: made("{ rule: 'match', drafter: '%s', seed: %d }" % (drafter, seed)) for name, drafter, seed in (("p", "mtp", 3), ("p.1", "lookup", 4))}
    preset = {"name": "p", "title": "P", "teaches": "", "prompt": "", "settings": runs["p"]["settings"], "others": [{"drafter": "lookup"}]}
    page = open_stage(runs["p"], presets=[preset], recorded=runs, reduced_motion="reduce")
    assert page.locator(".others option").all_inner_texts() == ["heads", "lookup"]
    for _ in range(4):
        page.keyboard.press("Shift+ArrowRight")

    def start():
        trace = runs[page.input_value(".others")]
        return trace["rounds"][int(page.get_attribute(".strip", "aria-valuenow")) - 2]["start"]

    at = start()
    page.select_option(".others", "p.1")
    page.wait_for_function("document.querySelector('.speaker.heads').textContent === 'lookup'")
    there = start()
    assert there <= at and at - there <= 5  # the round that holds this place of the text
    assert page.text_content(".badge") == f"recorded run · bias: mean TV {counts(runs['p.1'])['mean_bias_tv']:.2f}"
    assert page.is_checked(".advanced input[value=lookup]")
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("o")
    page.wait_for_function("document.querySelector('.speaker.heads').textContent === 'heads'")
    page.evaluate(RUN % (json.dumps(runs["p.1"]), 5, "false"))
    assert page.is_hidden(".others")


def test_a_still_is_a_picture_whatever_the_tokens(open_stage):
    page = open_stage(made("{ prompt: 'a<b> \\x01 \\ud800', skill: 9, num_draft_tokens: 8, pieces: %s }" % ODD), reduced_motion="reduce")
    page.click(".advanced-button")
    for _ in range(4):
        with page.expect_download() as download:
            page.click(".tool.still")
        picture = ElementTree.parse(download.value.path()).getroot()
        assert picture.tag.endswith("svg") and {one.tag.split("}")[1] for one in picture.iter()} <= {"svg", "g", "rect", "text", "path"}
        page.keyboard.press("Escape")
        page.keyboard.press("Shift+ArrowRight")
        page.click(".advanced-button")


def test_another_language_and_lecture_mode_keep_run_place_and_knobs(open_stage):
    page = open_stage(made("{}"), width=1600, height=1000)
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    place = page.get_attribute(".strip", "aria-valuenow")
    page.fill(".prompt-input", "kept")
    page.click(".advanced-button")
    page.fill(".advanced [data-field=seed]", "7")
    page.click(".tool.language")
    assert page.text_content(".decode") == "解码" and page.get_attribute(".mtviz-stage", "lang") == "zh"
    assert page.get_attribute(".strip", "aria-valuenow") == place and page.input_value(".prompt-input") == "kept"
    page.keyboard.press("l")
    page.wait_for_function("document.fullscreenElement && document.querySelector('.mtviz-stage').currentCSSZoom === 1.5")
    strip = page.locator(".strip").bounding_box()
    page.mouse.click(strip["x"] + 1, strip["y"] + strip["height"] / 2)
    assert page.get_attribute(".strip", "aria-valuenow") == "1"
    head = page.locator(".strip-head").bounding_box()
    assert abs(head["x"] - strip["x"]) < 4
    page.keyboard.press("l")
    page.wait_for_function("!document.fullscreenElement")
    page.click(".decode")
    sent = page.evaluate("sent[0]")
    assert sent["prompt"] == "kept" and sent["settings"]["seed"] == 7


def test_field_F32_rounds_remain_readable_where_drawing_fails(browser, open_stage):
    page = open_stage(made("{}"))
    page.evaluate("() => { CanvasRenderingContext2D.prototype.fillRect = () => { throw new Error('drawing fails'); }; }")
    page.evaluate(RUN % (json.dumps(made("{ prompt: 'still here' }")), 5, "false"))
    assert "still here" in page.inner_text(".mtviz-stage") and page.locator(".mtviz-stage li").count() > 5
    page.problems.clear()  # the failure is reported, as it should be


# Work of the page's main thread in seconds, as Chromium counts it: script, style, layout and painting, by the processor's
# clock, so that what else the machine does is not counted. What the compositor's own threads draw is not in it.
WORK = ("TaskDuration", "ScriptDuration", "RecalcStyleDuration", "LayoutDuration")


@contextmanager
def worked(page, turns):
    """Yields a dict that holds, after the block, the milliseconds of work for each of its `turns()`."""
    session, found = page.context.new_cdp_session(page), {}
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read():
        metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        return turns(), [metrics[name] for name in WORK]

    began, start = read()
    yield found
    ended, stop = read()
    assert ended > began
    found.update({name: 1000 * (b - a) / (ended - began) for name, a, b in zip(WORK, start, stop)}, turns=ended - began)


def test_frames_of_a_run_of_sixty_four_rounds_hold_sixty_a_second(open_stage):
    """All that the main thread does for a frame, painting included, fits into a frame's 16.7 ms, with room to spare."""
    trace = made("{ pieces: RAIN_TOKENS.concat(RAIN_TOKENS, RAIN_TOKENS, RAIN_TOKENS), max_new_tokens: 1000 }")
    trace["rounds"] = trace["rounds"][:64]
    assert len(trace["rounds"]) == 64
    page = open_stage(trace)
    page.evaluate("() => { window.frames = 0; const count = () => { frames += 1; requestAnimationFrame(count); }; count(); }")
    page.select_option(".speed", "1")
    page.wait_for_timeout(500)  # compiled, laid out
    with worked(page, lambda: page.evaluate("frames")) as frame:
        page.wait_for_timeout(2500)
    assert page.text_content(".key.play") == "❚❚"
    assert frame["TaskDuration"] < 1000 / 60, frame
    assert frame["RecalcStyleDuration"] > 0 and frame["ScriptDuration"] > 0  # the frames did something


def test_scrubbing_five_hundred_rounds_is_fast(open_stage):
    trace = made("{ pieces: Array.from({ length: 40 }, () => RAIN_TOKENS.slice(0, 60)).flat().slice(0, 1900), max_new_tokens: 1900, skill: 0.72 }")
    assert len(trace["rounds"]) >= 500
    page = open_stage(trace)
    strip = page.locator(".strip").bounding_box()
    at = lambda part: (strip["x"] + strip["width"] * part * 0.97, strip["y"] + 9)
    page.mouse.move(*at(0.2))
    page.mouse.down()
    seen = []
    for part in (0.3, 0.9, 0.1):  # compiled
        page.mouse.move(*at(part))
    with worked(page, lambda: len(seen)) as step:
        for part in (0.3, 0.31, 0.5, 0.49, 0.9, 0.88, 0.1, 0.12, 0.7):
            page.mouse.move(*at(part))
            seen.append(page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(document.querySelector('.where').textContent))))"))
    page.mouse.up()
    assert len(set(seen)) == len(seen), seen
    assert step["TaskDuration"] < 50, step
