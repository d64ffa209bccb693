"""Behind a proxy that serves the page under a path prefix, as docs/hosting.md tells nginx to."""

from __future__ import annotations

import threading
import time

import httpx
import pytest
import uvicorn
from app_process import free_port
from fakes import ScriptedTrunk, prefix_law
from gradio_client import Client
from playwright.sync_api import expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

import mtviz.trunk
from mtviz.service import Service
from mtviz.ui import build_ui, launch

pytestmark = pytest.mark.browser
PREFIX = "/courses/mtviz"


def proxy(target: str) -> Starlette:
    """What `location /courses/mtviz/ { proxy_pass TARGET; proxy_buffering off; }` does."""
    client = httpx.AsyncClient(base_url=target, timeout=60)

    async def forward(request: Request) -> StreamingResponse:
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length")}
        headers |= {"x-forwarded-host": request.headers["host"], "x-forwarded-proto": "http"}
        url = request.url.path.removeprefix(PREFIX) + (f"?{request.url.query}" if request.url.query else "")
        asked = client.build_request(request.method, url, headers=headers, content=await request.body())
        answer = await client.send(asked, stream=True)
        kept = {name: value for name, value in answer.headers.items() if name != "transfer-encoding"}
        return StreamingResponse(answer.aiter_raw(), answer.status_code, kept)

    return Starlette(routes=[Route(PREFIX + "/{path:path}", forward, methods=["GET", "POST", "HEAD"])])


@pytest.fixture(scope="module")
def prefixed_url(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mtviz.trunk, "load_trunk", lambda *_, **__: ScriptedTrunk(prefix_law(12, 1), 12))
        service = Service(heads=tmp_path_factory.mktemp("none"))
        service.load()
    page = build_ui(service)
    _, url, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, root_path=PREFIX)
    port = free_port()
    front = uvicorn.Server(uvicorn.Config(proxy(url), port=port, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=front.run, daemon=True)
    thread.start()
    while not front.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}{PREFIX}/"
    front.should_exit = True
    thread.join(10)
    page.close()


def test_the_page_decodes_under_a_prefix_and_asks_for_nothing_outside_it(context, prefixed_url):
    asked = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(prefixed_url)
    expect(page.locator(".column").first).to_be_visible()
    page.click(".advanced-button")
    page.check(".advanced input[value=lookup]")
    page.fill(".advanced [data-field=max_new_tokens]", "5")
    page.keyboard.press("Escape")
    page.fill(".prompt-input", "under a prefix")
    page.click(".decode")
    expect(page.locator(".badge")).to_have_text("live run", timeout=60_000)
    assert len(asked) > 5 and [url for url in asked if not url.startswith((prefixed_url, "data:", "blob:"))] == []


def test_the_api_is_reached_under_a_prefix(prefixed_url):
    trace = Client(prefixed_url, verbose=False).predict("hello", max_new_tokens=3, drafter="lookup", api_name="/decode")
    assert len(trace["output"]["tokens"]) == 3
