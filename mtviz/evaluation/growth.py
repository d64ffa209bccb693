"""`python -m mtviz lab growth`: what a round costs as the text grows.

A prompt of each length is read, and the same number of rounds follows it, without a drafter and with one. Only attention
may grow with the text: what drafting, judging and recording add must not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from bisect import bisect_right
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from mtviz.decoding.record import decode_trace
from mtviz.drafting.files import load_drafters
from mtviz.drafting.protocol import Drafter
from mtviz.evaluation.machine import PeakMemory, provenance
from mtviz.settings import DTYPES, Settings
from mtviz.trunk import Trunk, TrunkNotFound, load_trunk

ASSETS = Path(__file__).resolve().parents[2] / "assets"
TEXT = ASSETS / "prompts" / "new_topics.txt"
CONTEXTS = (128, 1024, 4096)
FAMILY = "mtp"
LENGTH = 3
WARM_UP = 3


def prompt_of(trunk: Trunk, tokens: int) -> str:
    """The new prompts' words, over and over, for as long as they stay within `tokens` tokens."""
    words = list(islice(cycle(TEXT.read_text(encoding="utf-8").split()), tokens))
    return " ".join(words[: bisect_right(range(tokens + 1), tokens, key=lambda n: len(trunk.encode(" ".join(words[:n]), raw=True))) - 1])


def measure(
    trunk: Trunk, drafters: Mapping[str, Callable[[], Drafter]], contexts: Sequence[int], rounds: int
) -> Iterator[dict[str, Any]]:
    """Yield how far it is, {kind: "progress", what, done, of}, and last the result, of kind "growth".

    Its rows hold, by context and family: `context` (tokens of the prompt), `prefill_ms`, and over the rounds after it the
    medians `draft_ms`, `verify_ms` (pass, laws and judging) and `record_ms` (writing the Trace), `tokens_per_second`,
    `trace_bytes_per_round`, and `peak_bytes`, the most memory held meanwhile.
    """
    runs = [(context, drafter) for context in contexts for drafter in (None, drafters[FAMILY]())]
    rows = []
    for done, (context, drafter) in enumerate(runs):
        family = drafter.name if drafter else "none"
        yield {"kind": "progress", "what": f"{family} after {context} tokens", "done": done, "of": len(runs)}
        rows.append({"family": family, **_run(trunk, drafter, context, rounds)})
    yield {"kind": "growth", "num_draft_tokens": LENGTH, "rounds": rounds, "rows": rows}


def _run(trunk: Trunk, drafter: Drafter | None, context: int, rounds: int) -> dict[str, Any]:
    length = LENGTH if drafter else 0
    settings = Settings(rule="match", raw=True, num_draft_tokens=length, max_new_tokens=(WARM_UP + rounds) * (length + 1) + 1)
    memory = PeakMemory(trunk.device)
    memory.restart()
    times: list[tuple[float, float, float]] = []
    lengths: list[int] = []
    before: dict[str, float] = {}
    trace: dict[str, Any] = {}
    for trace in decode_trace(trunk, drafter, prompt_of(trunk, context), settings):
        seconds = dict(trace["seconds"])
        if before:
            draft, verify, total = (seconds[name] - before[name] for name in ("draft", "verify", "total"))
            times.append((draft, verify, total - draft - verify))
        before = seconds
        lengths.append(len(trace["output"]["tokens"]))
        if len(times) == WARM_UP + rounds:
            break
    counted = times[WARM_UP:]
    if not counted:
        raise ValueError(f"the text ended after {len(times)} rounds: nothing to count")
    draft, verify, record = (1000 * statistics.median(column) for column in zip(*counted))
    written = trace["rounds"][WARM_UP:]
    return {
        "context": len(trace["prompt"]["tokens"]), "prefill_ms": 1000 * trace["seconds"]["prefill"],
        "draft_ms": draft, "verify_ms": verify, "record_ms": record, "rounds": len(counted),
        "tokens_per_second": (lengths[-1] - lengths[WARM_UP]) / sum(map(sum, counted)),
        "trace_bytes_per_round": len(json.dumps(written)) / len(written), "peak_bytes": memory.read(),
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mtviz lab growth", description="what a round costs as the text grows")
    parser.add_argument("--contexts", nargs="+", type=int, default=CONTEXTS, metavar="N", help="tokens of the prompts (default: 128 1024 4096)")
    parser.add_argument("--rounds", type=int, default=24, choices=range(1, 201), metavar="N", help="counted rounds after each (default %(default)s)")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    arguments = parser.parse_args(argv)
    try:
        trunk = load_trunk(dtype=arguments.dtype)
        longest = trunk.context - (WARM_UP + arguments.rounds) * (LENGTH + 1) - 1
        if not all(32 <= context <= longest for context in arguments.contexts):
            raise ValueError(f"--contexts must be from 32 to {longest}")
        drafters, _ = load_drafters(ASSETS / "heads", trunk)
        for measured in measure(trunk, drafters, arguments.contexts, arguments.rounds):
            if measured["kind"] == "progress":
                print(f"{measured['done'] + 1} of {measured['of']}: {measured['what']}", file=sys.stderr, flush=True)
    except (TrunkNotFound, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for row in measured["rows"]:
        print(
            f"{row['context']:>5} tokens, {row['family']:<5} {row['tokens_per_second']:5.1f} tokens/s; a round: draft {row['draft_ms']:.1f}, "
            f"verify {row['verify_ms']:.1f}, record {row['record_ms']:.1f} ms, {row['trace_bytes_per_round'] / 1000:.1f} kB; "
            f"prefill {row['prefill_ms']:.0f} ms; peak {(row['peak_bytes'] or 0) / 1e6:.0f} MB"
        )
    if arguments.json:
        command = f"python -m mtviz lab growth --rounds {arguments.rounds} --dtype {arguments.dtype} --json {arguments.json.name}"
        arguments.json.write_text(json.dumps({"provenance": provenance(trunk, command), **measured}, indent=1) + "\n", encoding="utf-8")
    return 0
