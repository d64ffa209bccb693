"""A small class in CI: the same scenes as `python tests/load/run.py`, with numbers that take seconds."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading

import gradio.routes
import hostile
import httpx
import pytest
import scenes
import server
import visitors
from gradio_client import Client

from mtviz.hosting import Limits
from mtviz.settings import Settings
from mtviz.trace import validate
from mtviz.ui import build_ui, launch

SETTINGS = Settings(max_new_tokens=24, drafter="lookup").to_dict()


def asked(prompt: str, **settings) -> dict:
    return {"prompt": prompt, "settings": {**SETTINGS, **settings}}


@pytest.fixture(scope="module")
def page():
    built = build_ui(server.scripted_service(), Limits(max_waiting=8, max_new_tokens=400, max_request_kilobytes=64))
    _, built.url, _ = launch(built, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True)
    yield built
    built.close()


def play(page, scene):
    """Run `scene(hall, http)` against the page."""

    async def with_client():
        async with visitors.client(100) as http:
            return await scene(await visitors.Hall.at(http, page.url), http)

    return asyncio.run(with_client())


def test_a_class_on_one_preset_is_served_by_one_computation(page, caplog):
    with caplog.at_level("INFO", "mtviz.hall"):
        seen = play(page, lambda hall, http: scenes.one_preset(hall, http, 40, asked("the same for all")))
    assert seen.served == 40 and seen.last_after_first < 20
    assert [record.getMessage() for record in caplog.records].count("run") == 1


def test_different_prompts_are_all_served_or_told(page):
    visits = play(page, lambda hall, http: visitors.all_at_once(hall, http, [asked(f"prompt {i}") for i in range(12)]))
    refused = [visit for visit in visits if not visit.served]
    assert len(refused) == 3 and all('"code":"full"' in visit.text for visit in refused)  # one is on the device, eight wait
    assert any(visit.waited_at and visit.waited_at[0] > 0 for visit in visits)


def test_field_F27_those_who_leave_free_the_device(page):
    freed = play(page, lambda hall, http: scenes.leavers(hall, http, 4, asked("long", max_new_tokens=400)))
    assert freed < 10, freed  # two seconds on a machine of its own
    assert page.hall.counts()["running"] == page.hall.counts()["waiting"] == 0


def test_runs_leave_no_thread_and_no_text_behind(page):
    play(page, lambda hall, http: scenes.many_runs(hall, http, 4, asked("warm", max_new_tokens=2)))
    before = threading.active_count()
    play(page, lambda hall, http: scenes.many_runs(hall, http, 12, asked("again", max_new_tokens=2)))
    assert threading.active_count() <= before + 1
    assert len(page.state_holder.session_data) == 1  # in which Gradio keeps what it sent last


def test_hostile_calls_get_no_traceback_and_change_nothing_for_others(page, monkeypatch, capfd):
    monkeypatch.setattr(page.service._trunk, "_seconds", 0)
    found = play(page, lambda hall, http: scenes.fuzz(http, page.url, 150))
    assert found.tracebacks == [] and found.hung == [] and found.answered == 150
    (visit,) = play(page, lambda hall, http: visitors.all_at_once(hall, http, [asked("after the storm")]))
    assert visit.served
    assert "4001" not in capfd.readouterr().err.replace("has 4001 characters", "")


def test_the_api_gives_the_trace_and_names_what_is_wrong(page):
    client = Client(page.url, verbose=False)
    trace = client.predict("hello", max_new_tokens=5, api_name="/decode")
    assert validate(trace)["finish_reason"] == "length" and len(trace["output"]["tokens"]) == 5
    for arguments, message in (({"max_new_tokens": 401}, "max_new_tokens: must be at most 400 here"), ({"rule": "luck"}, "rule: must be one of")):
        with pytest.raises(Exception, match=message):
            client.predict("hello", **arguments, api_name="/decode")


def test_what_nobody_foresaw_is_a_message_and_no_word_of_the_visitor_is_printed(page, monkeypatch, capfd):
    async def broken(prompt, settings):
        raise RuntimeError(f"secret: {prompt}")
        yield

    monkeypatch.setattr(page.hall, "watch", broken)
    with pytest.raises(Exception, match="^The request was not understood.$"):
        Client(page.url, verbose=False).predict("mine alone", api_name="/decode")
    answer = httpx.post(page.url + "gradio_api/queue/join", content=b'[NaN, "mine alone"]', headers={"content-type": "application/json"})
    assert answer.status_code == 422 and answer.json() == {"detail": "The request was not understood"}
    assert "mine alone" not in "".join(capfd.readouterr())


# --- the web's edge ------------------------------------------------------------------------------------------------


def test_only_the_addresses_that_the_page_needs_exist(page):
    declared = re.findall(r'@(app|router)\.(?:get|post|head|put|delete)\(\s*f?"([^"]+)"', inspect.getsource(gradio.routes))
    paths = {("/gradio_api" if where == "router" else "") + path for where, path in declared}
    assert len(paths) > 60  # all that Gradio knows
    example = {"path": "x.js", "api_name": "stage", "event_id": "1f", "session_hash": "s", "file_name": "x"}
    found = set()
    for path in paths:
        concrete = path
        for name, value in example.items():
            concrete = concrete.replace("{%s:path}" % name, value).replace("{%s}" % name, value)
        concrete = re.sub(r"\{[^}]*\}", "1", concrete)
        answer = httpx.get(page.url.rstrip("/") + concrete, timeout=20) if "heartbeat" not in path and "queue/data" not in path else None
        if answer is None or answer.headers.get("content-type") != "application/json" or answer.json() != {"detail": "Not found"}:
            found.add(path)
    reached = {path for path in found if not path.startswith(("/static", "/assets", "/svelte"))}
    assert not [path for path in reached if any(word in path for word in ("file", "upload", "proxy", "deep", "vibe", "record", "monitor", "stream", "custom"))]
    assert reached <= {
        "/", "/config", "/config/", "/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json", "/gradio_api/info", "/gradio_api/info/",
        "/gradio_api/app_id", "/gradio_api/app_id/", "/gradio_api/login_check", "/gradio_api/login_check/", "/gradio_api/theme.css",
        "/gradio_api/startup-events", "/gradio_api/queue/join", "/gradio_api/queue/data", "/gradio_api/queue/status", "/gradio_api/cancel",
        "/gradio_api/reset", "/gradio_api/reset/", "/gradio_api/heartbeat/{session_hash}", "/gradio_api/component_server", "/gradio_api/component_server/",
    }  # fmt: skip


@pytest.mark.parametrize("path", hostile.PATHS)
def test_no_address_reads_a_file(page, path):
    answer = httpx.get(f"{page.url}{path}", timeout=20)
    assert "root:x:0" not in answer.text and "build_ui" not in answer.text
    assert answer.status_code in (307, 400, 403, 404, 405, 422) or path.startswith("?")


def test_headers_confine_the_page(page):
    for path in ("", "config", "gradio_api/nothing", "healthz"):
        headers = httpx.get(page.url + path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["connect-src"] == "'self'" and "http" not in policy["script-src"]
        assert policy["frame-ancestors"] == "'self' https://huggingface.co https://*.hf.space"
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_more_than_the_limit_is_not_read(page):
    def endless():
        for _ in range(1000):
            yield b"x" * 1024

    for content in (b"x" * 70_000, endless()):
        answer = httpx.post(page.url + "gradio_api/queue/join", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == 413 and answer.json() == {"detail": "At most 64 kB may be sent"}


def test_healthz_tells_a_probe_what_is_going_on(page):
    health = httpx.get(page.url + "healthz").json()
    assert health["live"] and not health["loading"] and health["waiting"] == health["running"] == 0
    assert json.dumps(health)
