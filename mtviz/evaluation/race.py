"""`python -m mtviz race`: one prompt in two lanes, token by token and with drafts, both measured on this machine.

The lanes never run at the same time: the one whose clock is behind takes the next step. So at every moment of the race both
have had the same machine for the same time, and a slow spell of it meets both at the same place.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, Iterator

from mtviz.decoding.record import decode_trace
from mtviz.drafting.protocol import Drafter
from mtviz.evaluation.machine import provenance
from mtviz.settings import Settings
from mtviz.trace import Round, Trace, counts, share
from mtviz.trunk import Trunk

WARM_UP_TOKENS = 8
DEFAULTS = Settings(rule="match")  # an exact rule: both lanes then write the same text at temperature 0


def race(trunk: Trunk, drafter: Drafter | None, prompt: str, settings: Settings) -> Iterator[tuple[Trace, Trace]]:
    """Yield both growing Traces after every step of either: without a drafter, and with it under `settings`.

    Each lane first decodes a few tokens that do not count. Errors as in `mtviz.decoding.loop.decode`.
    """
    runs = ((None, replace(settings, drafter="none", num_draft_tokens=0)), (drafter, settings))
    for own_drafter, own in runs:
        for _ in decode_trace(trunk, own_drafter, prompt, replace(own, max_new_tokens=min(own.max_new_tokens, WARM_UP_TOKENS))):
            pass
    lanes = [decode_trace(trunk, own_drafter, prompt, own) for own_drafter, own in runs]
    traces = [next(lane) for lane in lanes]
    yield traces[0], traces[1]
    while running := [at for at in (0, 1) if traces[at]["finish_reason"] is None]:
        next(lanes[min(running, key=lambda at: clock(traces[at]))])
        yield traces[0], traces[1]


def clock(trace: Trace) -> float:
    """Seconds that the decoder itself has taken; writing the Trace is not among them."""
    return trace["seconds"]["prefill"] + trace["seconds"]["draft"] + trace["seconds"]["verify"]


def result(trunk: Trunk, plain: Trace, drafted: Trace) -> dict[str, Any]:
    """A finished race as plain JSON: provenance, prompt, settings, both lanes round by round, and the `outcome`."""
    prompt, settings = drafted["prompt"]["text"], Settings.from_mapping(drafted["settings"])
    return {
        "kind": "race",
        "provenance": provenance(trunk, command(prompt, settings, trunk.dtype)),
        "prompt": prompt,
        "settings": drafted["settings"],
        "lanes": [_lane(plain), _lane(drafted)],
        "outcome": outcome(plain, drafted),
    }


def _lane(trace: Trace) -> dict[str, Any]:
    prefill = trace["prefill"]
    assert prefill is not None, "a race is over only after both lanes have read the prompt"
    return {
        "family": trace["model"]["family"],
        "num_draft_tokens": trace["settings"]["num_draft_tokens"],
        "prefill": {"token": prefill["token"], "seconds": prefill["seconds"]},
        "rounds": [
            {
                "drafted": len(round_["drafts"]),
                "accepted": sum(draft["verdict"] == "accepted" for draft in round_["drafts"]),
                "tokens": _emitted(round_),
                "draft": round_["seconds"]["draft"],
                "verify": round_["seconds"]["verify"],
            }
            for round_ in trace["rounds"]
        ],
        "finish_reason": trace["finish_reason"],
        "text": trace["output"]["text"],
    }


def _emitted(round_: Round) -> list[Any]:
    accepted = [draft["token"] for draft in round_["drafts"] if draft["verdict"] == "accepted"]
    return [*accepted, *([round_["emitted"]["token"]] if round_["emitted"] else [])]


def outcome(plain: Trace, drafted: Trace) -> dict[str, Any]:
    """What the race came to. `lanes` holds tokens, passes, seconds and tokens_per_second of each, its prefill included.

    speed_ratio: tokens a second with drafts over those without.
    round: what a round with drafts cost and yielded, in plain passes (means over rounds): `draft` and `pass` add up to
    `cost`, and rounds alone are faster by `tokens` / `cost`. Null where a lane has no round.
    difference: null where both wrote the same ids, else the first token at which they part, and `gap`, how far apart
    the trunk's two most probable tokens were there in the lane without drafts.
    """
    lanes = []
    for trace in (plain, drafted):
        counted, seconds = counts(trace), clock(trace)
        row = {name: counted[name] for name in ("new_tokens", "passes", "drafted", "accepted", "mean_acceptance_length")}
        lanes.append({**row, "seconds": seconds, "tokens_per_second": share(counted["new_tokens"], seconds)})
    before, after = (lane["tokens_per_second"] for lane in lanes)
    return {
        "lanes": lanes,
        "speed_ratio": share(after, before) if before and after else None,
        "round": _round_in_passes(plain, drafted),
        "ceiling": drafted["settings"]["num_draft_tokens"] + 1,
        "difference": _difference(plain, drafted),
    }


def _round_in_passes(plain: Trace, drafted: Trace) -> dict[str, float] | None:
    rounds = len(drafted["rounds"])
    plain_tokens = sum(len(_emitted(round_)) for round_ in plain["rounds"])
    if not rounds or not plain_tokens:
        return None
    one = (plain["seconds"]["draft"] + plain["seconds"]["verify"]) / plain_tokens
    draft, wide = (drafted["seconds"][part] / rounds / one for part in ("draft", "verify"))
    tokens = sum(len(_emitted(round_)) for round_ in drafted["rounds"]) / rounds
    return {"milliseconds_per_plain_pass": 1000 * one, "draft": draft, "pass": wide, "cost": draft + wide, "tokens": tokens}


def _difference(plain: Trace, drafted: Trace) -> dict[str, Any] | None:
    ours, theirs = ([token["id"] for token in trace["output"]["tokens"]] for trace in (plain, drafted))
    if ours == theirs:
        return None
    at = next((n for n, (one, other) in enumerate(zip(ours, theirs)) if one != other), min(len(ours), len(theirs)))
    if at >= len(ours):
        return {"token": at, "gap": None}
    top = plain["rounds"][at - 1]["after"]["top_target"] if at else plain["prefill"]["top_target"]
    return {"token": at, "gap": top[0]["raw_prob"] - top[1]["raw_prob"] if len(top) > 1 else None}


def command(prompt: str, settings: Settings, dtype: str) -> str:
    """The command line that runs this race again."""
    words = ["python -m mtviz race --prompt", shlex.quote(prompt)]
    for name, value in settings.to_dict().items():
        if value != getattr(DEFAULTS, name):
            words.append(f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}"))
    return " ".join([*words, *([f"--dtype {dtype}"] if dtype != "bfloat16" else [])])


def summary(raced: dict[str, Any]) -> list[str]:
    """The outcome for a terminal."""
    won = raced["outcome"]
    lines = [
        f"{lane['family']:<13} {row['new_tokens']} tokens in {row['passes']} passes, {row['seconds']:.2f} s, "
        f"{row['tokens_per_second']:.1f} tokens/s"
        for lane, row in zip(raced["lanes"], won["lanes"])
    ]
    if won["speed_ratio"] is not None:
        lines.append(f"with drafts {won['speed_ratio']:.2f} times as fast")
    if (spent := won["round"]) is not None:
        lines.append(
            f"a round yields {spent['tokens']:.2f} tokens and costs {spent['cost']:.2f} plain passes "
            f"(drafts {spent['draft']:.2f}, pass {spent['pass']:.2f})"
        )
    parted = won["difference"]
    same = "the texts are identical"
    lines.append(same if parted is None else f"the texts part at token {parted['token'] + 1}, where the top-2 gap is {parted['gap']}")
    return lines
