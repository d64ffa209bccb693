"""Starting the app as a visitor's machine would: `python app.py` in a process of its own."""

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
