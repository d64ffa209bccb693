"""`python -m mtviz lab pass-cost`: what a pass over 1 to 9 tokens takes, and what the drafts for it take.

Both are the loop's own times: proposals of known length go through `mtviz.decoding.loop`, one round of each length in turn, so
that a slow spell of the machine meets them all. Medians, after rounds that do not count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch

from mtviz.decoding.loop import RoundStep, decode
from mtviz.drafting.files import load_drafters
from mtviz.drafting.protocol import Drafter, Proposal, Sample
from mtviz.evaluation.machine import provenance
from mtviz.settings import BOUNDS, DTYPES, Settings
from mtviz.trunk import Trunk, TrunkNotFound, load_trunk

PROMPT = "Describe a morning in a harbour, from the first light to the opening of the market."
LENGTHS = range(int(BOUNDS["num_draft_tokens"].high) + 1)
WARM_UP = 3
HEADS = Path(__file__).resolve().parents[2] / "assets" / "heads"


class Repeating:
    """Proposes the last token again and again: drafts that cost nothing, so that only the pass is measured."""

    name, max_draft_tokens = "repeating", LENGTHS[-1]

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def start(self) -> None:
        pass

    def observe(self, hidden: torch.Tensor, next_ids: Sequence[int]) -> None:
        pass

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, sample: Sample) -> Proposal:
        laws = torch.zeros(num_draft_tokens, self._vocab_size, dtype=torch.float64)
        laws[:, sequence[-1]] = 1.0
        return Proposal([sequence[-1]] * num_draft_tokens, laws, laws)


def measure(
    trunk: Trunk, drafters: Mapping[str, Callable[[], Drafter]], rounds: int, prompt: str = PROMPT
) -> Iterator[dict[str, Any]]:
    """Yield how far it is, {kind: "progress", what, done, of}, and last the result, of kind "pass_cost".

    passes: milliseconds of a pass by the tokens in it (the last one and the drafts; its laws and the judging included).
    drafts: milliseconds of a proposal by its length, for each of `drafters`.
    Entries are {tokens, median, low, high, rounds}: low and high are quartiles. `context` is the range of cache lengths
    that the passes met.
    """
    parts = [("passes", lambda: Repeating(trunk.vocab_size), LENGTHS), *((name, new, LENGTHS[1:]) for name, new in drafters.items())]
    measured, contexts = {}, []
    for done, (name, new, lengths) in enumerate(parts):
        yield {"kind": "progress", "what": name, "done": done, "of": len(parts)}
        measured[name], met = _rounds(trunk, new, lengths, rounds, prompt)
        contexts = contexts or met
    passes = measured.pop("passes")
    yield {
        "kind": "pass_cost",
        "context": [min(contexts), max(contexts)],
        "passes": [_spread(tokens + 1, [verify for _, verify in times]) for tokens, times in sorted(passes.items())],
        "drafts": {
            name: [_spread(tokens, [draft for draft, _ in times]) for tokens, times in sorted(own.items()) if tokens]
            for name, own in measured.items()
        },
    }


def _rounds(
    trunk: Trunk, new_drafter: Callable[[], Drafter], lengths: Sequence[int], rounds: int, prompt: str
) -> tuple[dict[int, list[tuple[float, float]]], list[int]]:
    """(draft seconds, verify seconds) of the counted rounds, by the number of drafts that they had; and their cache lengths."""
    ids = trunk.encode(prompt)
    runs = [_endless(trunk, new_drafter(), ids, Settings(rule="match", num_draft_tokens=k, max_new_tokens=1024)) for k in lengths]
    times: dict[int, list[tuple[float, float]]] = defaultdict(list)
    contexts = []
    for turn in range(WARM_UP + rounds):
        for run in runs:
            step = next(run)
            if turn >= WARM_UP and not step.proposal.copied:  # a copy is no draft of the heads
                times[len(step.proposal.tokens)].append((step.draft_seconds, step.verify_seconds))
                contexts.append(step.cache_lengths[0])
    return times, contexts


def _endless(trunk: Trunk, drafter: Drafter, prompt: Sequence[int], settings: Settings) -> Iterator[RoundStep]:
    """Rounds from the prompt on, begun again where the text ends."""
    while True:
        yield from (step for step in decode(trunk, drafter, prompt, settings) if isinstance(step, RoundStep))


def _spread(tokens: int, seconds: Sequence[float]) -> dict[str, Any]:
    milliseconds = [1000 * value for value in seconds]
    quartiles = statistics.quantiles(milliseconds, n=4, method="inclusive") if len(milliseconds) > 1 else milliseconds * 3
    return {"tokens": tokens, "median": statistics.median(milliseconds), "low": quartiles[0], "high": quartiles[2], "rounds": len(milliseconds)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mtviz lab pass-cost", description="what a pass over 1 to 9 tokens takes, and its drafts")
    parser.add_argument("--rounds", type=int, default=16, choices=range(1, 201), metavar="N", help="counted rounds of each length (default %(default)s)")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    arguments = parser.parse_args(argv)
    try:
        trunk = load_trunk(dtype=arguments.dtype)
    except TrunkNotFound as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    drafters, _ = load_drafters(HEADS, trunk)
    for measured in measure(trunk, drafters, arguments.rounds):
        if measured["kind"] == "progress":
            print(f"{measured['done'] + 1} of {measured['of']}: {measured['what']}", file=sys.stderr, flush=True)
    for row in measured["passes"]:
        print(f"pass over {row['tokens']} tokens: {row['median']:.1f} ms ({row['low']:.1f} to {row['high']:.1f})")
    for name, rows in measured["drafts"].items():
        print(f"{name}: " + ", ".join(f"{row['tokens']} drafts {row['median']:.1f} ms" for row in rows))
    if arguments.json:
        command = f"python -m mtviz lab pass-cost --rounds {arguments.rounds} --dtype {arguments.dtype} --json {arguments.json.name}"
        arguments.json.write_text(json.dumps({"provenance": provenance(trunk, command), **measured}, indent=1) + "\n", encoding="utf-8")
    return 0
