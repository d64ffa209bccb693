"""The programs that tests drive. A missing one fails the test: a test that is quietly left out shows nothing."""

from __future__ import annotations

import os
import shutil

import pytest
from playwright._impl._driver import compute_driver_executable


def chromium() -> str:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    return found or pytest.fail("no Chromium: install Debian's package chromium, or name one in CHROMIUM")


def node() -> str:
    """Node.js, or the one that Playwright brings along."""
    return shutil.which("node") or str(compute_driver_executable()[0])
