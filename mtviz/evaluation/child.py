"""One measurement of the laboratory in a process of its own, for the *Measure* page: small, watched, and ended with its page."""

from __future__ import annotations

import json
import re
from typing import Any

from mtviz.training.child import Child

WEIGHING_SECONDS = 240  # of processor time, beside the trainings of the trade-off
TRADEOFF_HEADS = (1, 2, 4, 8)
TRADEOFF_SIZE = {"--documents": 6, "--prompts": 4, "--max-new-tokens": 48}
_PROGRESS = re.compile(r"(\d+) of (\d+): (\w+)")


class LabChild(Child):
    """`python -m mtviz lab WHAT`: "memory", "footprint", or "tradeoff".

    Args:
        text: what the trade-off's models are trained on and weighed by.
        minutes: of processor time that each of them trains for.
    """

    def __init__(self, what: str, text: bytes, minutes: float, wall_seconds: float) -> None:
        super().__init__()
        self._json = self.directory / f"{what}.json"
        words = ["lab", what, "--json", str(self._json)]
        if what == "tradeoff":
            file = self.directory / "text.txt"
            file.write_bytes(text)
            words += ["--text", str(file), "--out", str(self.directory / "runs"), "--minutes", f"{minutes:g}"]
            words += ["--heads", *map(str, TRADEOFF_HEADS), *(str(word) for pair in TRADEOFF_SIZE.items() for word in pair)]
        self.start(words, 60 * minutes * len(TRADEOFF_HEADS) + WEIGHING_SECONDS, wall_seconds)

    def progress(self) -> dict[str, Any]:
        """{what, done, of} of the step that it is at; empty before the first."""
        steps = [step for step in map(_PROGRESS.match, self.said()) if step]
        return {"done": int(steps[-1][1]) - 1, "of": int(steps[-1][2]), "what": steps[-1][3]} if steps else {}

    @property
    def result(self) -> dict[str, Any] | None:
        """What it measured, once it has ended well."""
        return json.loads(self._json.read_text(encoding="utf-8")) if self._process.poll() == 0 and self._json.exists() else None
