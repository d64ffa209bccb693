"""The app to be loaded: the real page and hall, on the real model or on a scripted one whose passes take a given time.

    python tests/load/server.py PORT scripted|real [SECONDS OF A SCRIPTED PASS]
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

from fakes import ScriptedCache, ScriptedDrafter, ScriptedTrunk  # noqa: E402

from mtviz import hosting  # noqa: E402
from mtviz.service import Service  # noqa: E402
from mtviz.ui import build_ui, launch  # noqa: E402

VOCAB = 64
PASS_SECONDS = 0.02


def rows(seed: int) -> list[list[float]]:
    dice = random.Random(seed)
    weights = [[dice.random() ** 6 + 1e-3 for _ in range(VOCAB)] for _ in range(VOCAB)]
    return [[weight / sum(row) for weight in row] for row in weights]


ROWS = rows(1)
DRAFT_ROWS = [[(p + q) / 2 for p, q in zip(mine, other)] for mine, other in zip(ROWS, rows(2))]


class LoadTrunk(ScriptedTrunk):
    """Its law depends on the last token alone, and it remembers nothing: it is made for very many runs."""

    name = "scripted for load"

    def __init__(self, pass_seconds: float = PASS_SECONDS):
        super().__init__(lambda prefix: ROWS[prefix[-1]], VOCAB)
        self._seconds = pass_seconds

    def new_cache(self) -> ScriptedCache:
        return ScriptedCache()

    def forward(self, ids, cache, **options):
        time.sleep(self._seconds)
        self.passes.clear()
        return super().forward(ids, cache, **options)


def scripted_service(pass_seconds: float = PASS_SECONDS) -> Service:
    """A service on a `LoadTrunk`, whatever the drafter that is asked for."""
    service = Service(heads=Path("/nonexistent"))
    service._trunk = trunk = LoadTrunk(pass_seconds)
    service._run_of = lambda _: (trunk, ScriptedDrafter(VOCAB, law=lambda prefix: DRAFT_ROWS[prefix[-1]]))
    return service


def main(port: int, trunk: str, pass_seconds: float) -> None:
    hosting.log_as_json()
    service = scripted_service(pass_seconds) if trunk == "scripted" else Service()
    service.load()
    launch(build_ui(service, hosting.Limits.from_environment()), server_name="127.0.0.1", server_port=port, quiet=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else PASS_SECONDS)
