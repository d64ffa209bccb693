"""One training from scratch in a process of its own, watched through its log. Needs no torch here.

The process may not take more memory or time than it was given, yields to the page's own work, and is gone with its files once it
is closed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # Windows has no limits to set
    resource = None

MEMORY_BYTES = 3 * 2**30  # of data that the process itself may hold
OVERHEAD_SECONDS = 120  # starting, evaluating and saving, beside the training itself
NICENESS = 5


class TrainingChild:
    """`python -m mtviz train --from-scratch` on `text` for `minutes`, stopped after `wall_seconds` in any case."""

    def __init__(self, text: bytes, heads: int, strategy: str, minutes: float, wall_seconds: float) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mtviz-training-"))
        self._out = self.directory / "out"
        self._read = 0
        self._deadline = time.monotonic() + wall_seconds
        file = self.directory / "text.txt"
        file.write_bytes(text)
        words = ["--text", str(file), "--out", str(self._out), "--name", "own bytes"]
        words += ["--heads", str(heads), "--strategy", strategy, "--minutes", str(minutes)]
        with (self.directory / "errors.txt").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mtviz", "train", "--from-scratch", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=errors, start_new_session=True, cwd=Path(__file__).resolve().parents[2], env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        self._confine(60 * minutes + OVERHEAD_SECONDS)

    def _confine(self, seconds: float) -> None:
        """Set from here, since code between fork and exec is not safe in a process with threads."""
        if resource is not None and hasattr(resource, "prlimit"):
            resource.prlimit(self._process.pid, resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
            resource.prlimit(self._process.pid, resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        if hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def model(self) -> Path | None:
        """The file of the trained model, once there is one."""
        path = self._out / "model.safetensors"
        return path if not self.running and path.exists() else None

    def lines(self) -> list[dict[str, Any]]:
        """What the log has new. Past its time the process is asked to stop, and it saves what it has."""
        if time.monotonic() > self._deadline:
            self.stop()
        try:
            with (self._out / "log.jsonl").open("rb") as file:
                file.seek(self._read)
                new = file.read()
        except FileNotFoundError:
            return []
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def problem(self) -> str:
        """Why it failed, in a line."""
        errors = (self.directory / "errors.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        said = [line for line in errors if line.startswith("error: ")]
        if said:
            return said[-1].removeprefix("error: ")[:300]
        if self._process.returncode in (-signal.SIGXCPU, -signal.SIGKILL) or (errors and "memory" in errors[-1].lower()):
            return "The training took more time or memory than it may here."
        return errors[-1][:300] if errors else "The training ended early."

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end; it saves what it has first."""
        self._signal(signal.SIGTERM)
        self.go_on()

    def close(self) -> None:
        """End it at once and remove its files."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _signal(self, number: int) -> None:
        if self.running:
            self._process.send_signal(number)
