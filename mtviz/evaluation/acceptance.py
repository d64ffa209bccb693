"""How many drafts survive: each drafter at each proposal length, over a set of prompts, through the real loop."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Sequence

from mtviz.decoding.loop import PrefillStep, RoundStep, decode
from mtviz.drafting.protocol import Drafter
from mtviz.settings import BOUNDS, DTYPES, Settings
from mtviz.trace import count_verdicts, share
from mtviz.trunk import Trunk, load_trunk

LOOP_NGRAM, LOOP_REPEATS = 12, 3


def loops(tokens: Sequence[int]) -> bool:
    """True if some 12 tokens in a row occur three times: loops flatter every drafter, so they are reported apart."""
    seen: dict[tuple[int, ...], int] = {}
    for start in range(len(tokens) - LOOP_NGRAM + 1):
        ngram = tuple(tokens[start : start + LOOP_NGRAM])
        seen[ngram] = seen.get(ngram, 0) + 1
        if seen[ngram] >= LOOP_REPEATS:
            return True
    return False


def measure(trunk: Trunk, drafter: Drafter | None, prompts: Iterable[str], settings: Settings) -> dict[str, Any]:
    """Decode every prompt and count, over the outputs that do not loop.

    Returns survival and conditional acceptance by position, mean_acceptance_length (null without a round), drafted and
    emitted tokens, median milliseconds a proposal and a pass, the number of outputs, and how many of them loop with
    their own mean_acceptance_length. Definitions as in `mtviz.trace.Counts`.
    """
    rounds: list[RoundStep] = []
    looping_rounds: list[RoundStep] = []
    outputs = looping = 0
    for prompt in prompts:
        tokens, mine = _run(trunk, drafter, prompt, settings)
        outputs += 1
        looping += loops(tokens)
        (looping_rounds if loops(tokens) else rounds).extend(mine)
    drafted, judged, accepted = count_verdicts(step.verification.verdicts for step in rounds)
    return {
        "family": drafter.name if drafter is not None else "none",
        "num_draft_tokens": settings.num_draft_tokens,
        "rule": settings.rule,
        "temperature": settings.temperature,
        "outputs": outputs,
        "looping_outputs": looping,
        "rounds": len(rounds),
        "drafted": sum(drafted),
        "emitted": sum(len(step.new_tokens) for step in rounds),
        "mean_acceptance_length": _mean_acceptance_length(rounds),
        "looping_mean_acceptance_length": _mean_acceptance_length(looping_rounds),
        "survival": [share(a, d) for a, d in zip(accepted, drafted)],
        "conditional_acceptance": [share(a, j) for a, j in zip(accepted, judged)],
        "milliseconds_per_proposal": _median_milliseconds(step.draft_seconds for step in rounds),
        "milliseconds_per_pass": _median_milliseconds(step.verify_seconds for step in rounds),
    }


def _run(trunk: Trunk, drafter: Drafter | None, prompt: str, settings: Settings) -> tuple[list[int], list[RoundStep]]:
    tokens: list[int] = []
    rounds: list[RoundStep] = []
    for step in decode(trunk, drafter, trunk.encode(prompt), settings):
        if isinstance(step, PrefillStep):
            tokens.append(step.token)
        else:
            tokens += step.new_tokens
            step.probs = step.raw_probs = step.probs[:0]  # the laws are not counted, and would fill the memory
            step.proposal.draft_probs = step.proposal.raw_draft_probs = step.probs
            rounds.append(step)
    return tokens, rounds


def _mean_acceptance_length(rounds: Sequence[RoundStep]) -> float | None:
    return share(sum(len(step.new_tokens) for step in rounds), len(rounds))


def _median_milliseconds(seconds: Iterable[float]) -> float | None:
    values = [1000 * value for value in seconds]
    return statistics.median(values) if values else None


SETTINGS = (
    {"rule": "match", "temperature": 0.0},
    {"rule": "speculative", "temperature": 1.0},
)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m mtviz heads`: every family of heads at every length under both exact settings, as JSON."""
    from mtviz.drafting.heads import HeadsDrafter
    from mtviz.heads import load_heads

    parser = argparse.ArgumentParser(prog="python -m mtviz heads", description="measure what each family of heads yields")
    parser.add_argument("--prompts", type=Path, required=True, help="text file, one prompt a line")
    parser.add_argument("--heads", type=Path, default=Path("assets/heads"), help="directory of heads files (default %(default)s)")
    parser.add_argument("--family", action="append", help="only this family (may be given again)")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(range(1, int(BOUNDS["num_draft_tokens"].high) + 1)))
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args(argv)

    prompts = [line.strip() for line in arguments.prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not prompts:
        parser.error(f"--prompts: {arguments.prompts} holds no prompt")
    trunk = load_trunk(dtype=arguments.dtype)
    results = []
    for path in sorted(arguments.heads.glob("*.safetensors")):
        heads = load_heads(path, trunk)
        if arguments.family and heads.family not in arguments.family:
            continue
        described = {"parameters": sum(p.numel() for p in heads.parameters()), "bytes": path.stat().st_size}
        for exact in SETTINGS:
            for length in arguments.lengths:
                settings = Settings(num_draft_tokens=length, max_new_tokens=arguments.max_new_tokens, **exact)
                row = {**measure(trunk, HeadsDrafter(heads), prompts, settings), **described}
                results.append(row)
                print(_line(row), flush=True)
    provenance = {"trunk": trunk.name, "revision": trunk.fingerprint, "dtype": trunk.dtype, "device": trunk.device}
    document = {**provenance, "prompts": len(prompts), "max_new_tokens": arguments.max_new_tokens, "results": results}
    arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def _line(row: dict[str, Any]) -> str:
    show: Callable[[float | None], str] = lambda value: "n/a" if value is None else f"{value:.2f}"
    return (
        f"{row['family']:<13} length {row['num_draft_tokens']}  {row['rule']:<11} T={row['temperature']:g}  "
        f"mean acceptance length {show(row['mean_acceptance_length'])}  survival {' '.join(map(show, row['survival']))}  "
        f"{show(row['milliseconds_per_proposal'])} ms a proposal  looping {row['looping_outputs']}/{row['outputs']}"
    )


if __name__ == "__main__":
    sys.exit(main())
