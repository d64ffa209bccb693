"""`python -m mtviz lab start-up`: seconds from `python app.py` until the page answers, and until the model is ready.

Each start is a process of its own. The first one fills the disk's cache and does not count: what is measured is a warm start.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Sequence

from mtviz.evaluation.machine import provenance
from mtviz.trunk import load_trunk

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300  # seconds


def measure(starts: int) -> dict[str, Any]:
    """Medians over `starts` warm starts: seconds until the page `answers` and until the model is `ready`, each start's own
    under `each`. Raises RuntimeError, with what it printed, for an app that ends or does not answer."""
    each = [_start() for _ in range(1 + starts)][1:]
    return {
        "kind": "start_up", "starts": starts, "each": [{"answers": answers, "ready": ready} for answers, ready in each],
        "answers": statistics.median(answers for answers, _ in each), "ready": statistics.median(ready for _, ready in each),
    }  # fmt: skip


def imports(slowest: int = 10) -> list[tuple[str, float]]:
    """The packages that importing `app` takes longest for: seconds of each with all that it imports itself."""
    program = [sys.executable, "-X", "importtime", "-c", "import app"]
    lines = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stderr.splitlines()
    found = (re.fullmatch(r"import time:\s*\d+ \|\s*(\d+) \|\s*([\w.]+)", line) for line in lines)
    seconds = {match[2]: int(match[1]) / 1e6 for match in found if match}
    return sorted(((name, took) for name, took in seconds.items() if "." not in name), key=lambda pair: -pair[1])[:slowest]


def _start() -> tuple[float, float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "GRADIO_SERVER_PORT": str(port), "GRADIO_SERVER_NAME": "127.0.0.1"}
    began = time.monotonic()
    app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        answers = None
        while time.monotonic() - began < PATIENCE and app.poll() is None:
            if answers is None:
                answers = time.monotonic() - began if _get(port, "/") else None
            elif health := _get(port, "/healthz"):  # small: the page itself would take time from the loading
                if (state := json.loads(health))["live"]:
                    return answers, time.monotonic() - began
                if not state["loading"]:
                    raise RuntimeError(state["text"])
            time.sleep(0.1)
    finally:
        app.kill()
        printed, _ = app.communicate()
    raise RuntimeError(f"the app {'was not ready' if answers else 'did not answer'}:\n{printed[-2000:]}")


def _get(port: int, path: str) -> bytes | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.read()
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mtviz lab start-up", description="seconds until the page answers, and until the model is ready")
    parser.add_argument("--starts", type=int, default=5, choices=range(1, 21), metavar="N", help="warm starts (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    arguments = parser.parse_args(argv)
    try:
        measured = {**measure(arguments.starts), "imports": [{"package": name, "seconds": took} for name, took in imports()]}
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"page answers after {measured['answers']:.1f} s, model ready after {measured['ready']:.1f} s (medians of {arguments.starts})")
    print("slowest imports: " + ", ".join(f"{row['package']} {row['seconds']:.2f} s" for row in measured["imports"]))
    if arguments.json:
        command = f"python -m mtviz lab start-up --starts {arguments.starts} --json {arguments.json.name}"
        arguments.json.write_text(json.dumps({"provenance": provenance(load_trunk(), command), **measured}, indent=1) + "\n", encoding="utf-8")
    return 0
