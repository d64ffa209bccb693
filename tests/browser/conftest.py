"""A real app on the real model, and a real Chromium."""

from __future__ import annotations

import pytest
from app_process import start_app
from playwright.sync_api import Browser, BrowserContext, Page


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
