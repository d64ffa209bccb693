"""A real app on the real model, and a real Chromium."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_app(log: Path, **environment: str) -> tuple[subprocess.Popen, str]:
    """Start `python app.py` and wait until it answers."""
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "app.py"], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT,
            env={**os.environ, "GRADIO_SERVER_PORT": str(port), "GRADIO_SERVER_NAME": "127.0.0.1", **environment},
        )
    url = f"http://127.0.0.1:{port}/"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return process, url
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.2)
    process.kill()
    pytest.fail(f"the app did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory):
    process, url = start_app(tmp_path_factory.mktemp("app") / "log.txt")
    yield url
    process.terminate()
    process.wait(timeout=20)


@pytest.fixture
def context(browser: Browser):
    opened = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    opened.set_default_timeout(30_000)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page that fails its test when the script throws."""
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    assert not errors, errors
