"""Work that takes minutes in a process of its own: a training from scratch, watched through its log. Needs no torch here.

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
from typing import Any, Sequence

try:
    import resource
except ImportError:  # Windows has no limits to set
    resource = None

MEMORY_BYTES = 3 * 2**30  # of data that the process itself may hold
OVERHEAD_SECONDS = 120  # starting, evaluating and saving, beside the training itself
NICENESS = 5


class Child:
    """`python -m mtviz` with some words, in a process and a directory of its own; `close` ends the one and removes the other."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="mtviz-child-"))

    def start(self, words: Sequence[str], processor_seconds: float, wall_seconds: float) -> None:
        """Each process of it may take `processor_seconds`; `overdue` is true after `wall_seconds`."""
        self._deadline = time.monotonic() + wall_seconds
        with (self.directory / "errors.txt").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mtviz", *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=errors, start_new_session=True, cwd=Path(__file__).resolve().parents[2], env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        self._confine(processor_seconds)

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
    def overdue(self) -> bool:
        return time.monotonic() > self._deadline

    @property
    def killed(self) -> bool:
        """It did not end by itself: the system ended it, for what it took or for what others needed."""
        return self._process.poll() in (-signal.SIGXCPU, -signal.SIGKILL)

    def said(self) -> list[str]:
        """The lines that it wrote to its standard error so far."""
        return (self.directory / "errors.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()

    def problem(self) -> str:
        """Why it failed, in a line."""
        errors = self.said()
        refused = [line for line in errors if line.startswith("error: ")]
        if refused:
            return refused[-1].removeprefix("error: ")[:300]
        if self.killed or (errors and "memory" in errors[-1].lower()):
            return "Its process was ended by the system: it took more time or memory than it may here."
        return errors[-1][:300] if errors else "Its process ended early."

    def close(self) -> None:
        """End it at once, with all that it started, and remove its files."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:  # all have ended
            pass
        self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _signal(self, number: int) -> None:
        if self.running:
            self._process.send_signal(number)


class TrainingChild(Child):
    """`python -m mtviz train --from-scratch` on `text` for `minutes`, stopped after `wall_seconds` in any case."""

    def __init__(self, text: bytes, heads: int, kind: str, strategy: str, minutes: float, wall_seconds: float) -> None:
        super().__init__()
        self._out = self.directory / "out"
        self._read = 0
        file = self.directory / "text.txt"
        file.write_bytes(text)
        words = ["train", "--from-scratch", "--text", str(file), "--out", str(self._out), "--name", "own bytes"]
        words += ["--heads", str(heads), "--kind", kind, "--strategy", strategy, "--minutes", str(minutes)]
        self.start(words, 60 * minutes + OVERHEAD_SECONDS, wall_seconds)

    @property
    def model(self) -> Path | None:
        """The file of the trained model, once it has ended: that of its last checkpoint where it was ended from outside."""
        path = self._out / "model.safetensors"
        return path if not self.running and path.exists() else None

    def lines(self) -> list[dict[str, Any]]:
        """What the log has new. Past its time the process is asked to stop, and it saves what it has."""
        if self.overdue:
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

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end; it saves what it has first."""
        self._signal(signal.SIGTERM)
        self.go_on()
