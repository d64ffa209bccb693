"""The file that stands alone: what it holds, that nothing in a trace gets out of its data, and that it plays."""

from __future__ import annotations

import json
import re

import pytest
from made_up import made

from mtviz.trace import dumps
from mtviz.views.export import export_html, main

EVIL = r"""['</script><script>window.stolen = 1</script>', '<!--', '<script>', '</style>', ' a', '{0}', '\u2028', ' b', '&lt;', ' c', '<img src=x onerror=alert(1)>', ' d']"""


def test_a_file_without_traces_is_small_and_needs_at_least_one():
    trace = made("{}")
    assert len(export_html([trace]).encode()) - len(dumps(trace).encode()) <= 300_000
    with pytest.raises(ValueError):
        export_html([])


def test_nothing_in_a_trace_ends_its_element():
    html = export_html([made("{ prompt: '<!-- <script> </script> ]]>', pieces: %s }" % EVIL)])
    assert len(re.findall(r"<script", html)) == 2 and html.count("</script") == 2 and "<!--" not in html
    data = json.loads(re.search(r'id="mtviz">(.*?)</script>', html, re.DOTALL)[1])
    assert data["traces"][0]["prompt"]["text"] == "<!-- <script> </script> ]]>"


@pytest.mark.browser
def test_it_plays_from_disk_with_no_request_and_no_policy_error(browser, tmp_path):
    files = [tmp_path / f"{i}.json" for i in range(2)]
    files[0].write_text(dumps(made("{ prompt: 'first', pieces: %s }" % EVIL)), encoding="utf-8")
    files[1].write_text(dumps(made("{ prompt: 'second' }")), encoding="utf-8")
    out = tmp_path / "out.html"
    assert main(["--html", str(out), "--language", "en", *map(str, files)]) == 0

    page = browser.new_page(viewport={"width": 1280, "height": 800})
    asked, problems = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.goto(out.as_uri())
    page.wait_for_function("() => document.querySelector('.strip').ariaValueText === 'round 1 of 3'")  # the opening goes so far by itself
    for _ in range(2):  # to the end of this round, and of the next
        page.keyboard.press("Shift+ArrowRight")
    page.wait_for_function("() => document.querySelector('.strip').ariaValueText === 'round 2 of 3'")
    page.keyboard.press("2")
    page.wait_for_function("() => document.querySelector('.prompt').textContent.trim() === 'second'")
    page.keyboard.press("End")
    page.eval_on_selector(".threshold", "(slider) => { slider.value = 0.01; slider.dispatchEvent(new Event('input')); }")
    assert page.text_content(".badge") == "this round only"
    assert page.is_hidden(".decode") and page.evaluate("window.stolen") is None
    assert asked == [out.as_uri()] and problems == []
    page.close()


@pytest.mark.parametrize("content", ["", "[]", '{"schema": 1}', None])
def test_a_bad_trace_is_named_and_writes_nothing(content, tmp_path, capsys):
    path = tmp_path / "bad.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert main([str(path), "--html", str(tmp_path / "out.html")]) == 2
    assert "bad.json" in capsys.readouterr().err and not (tmp_path / "out.html").exists()
