"""Random rounds and Traces with what the engine says of them, as JSON for the Node tests to compare with."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from mtviz import rules
from mtviz.settings import RULES, Settings
from mtviz.text import join, token
from mtviz.trace import counts, judge_again

TOKENS = [token(i, piece) for i, piece in enumerate([b" a", b" b", b"c", b"\n", b"\xe8", b"\x81\xaa", b"\xf0\x9f", b"\x99", b"\x82", b"\xff", b"\xc2", b"<x>"])]
EDGES = [0.0, 1.0, 0.5, 0.25, 1e-12]


def random_settings(rng: random.Random) -> Settings:
    return Settings(
        num_draft_tokens=rng.randint(0, 8), rule=rng.choice(RULES), threshold=rng.choice([0.05, 0.3, 0.5, 0.9, 1.0]),
        epsilon=rng.choice([0.09, 0.5]), delta=rng.choice([0.3, 0.9]), temperature=rng.choice([0.0, 1.0]),
    )


def random_round(rng: random.Random, index: int, settings: Settings) -> dict[str, Any]:
    drafts = [_draft(rng, i, settings) for i in range(rng.randint(0, settings.num_draft_tokens))]
    round_ = {
        "index": index, "start": 10, "drafts": drafts,
        "after": {"trunk_token": rng.choice(TOKENS), "target_prob": 0.5, "raw_target_prob": 0.5, "entropy": 1.0, "top_target": []},
        "emitted": None, "cache": {"before": 9, "peak": 10 + len(drafts), "after": 10}, "seconds": {"draft": 0.001, "verify": 0.01},
    }
    judgement = judge_again(round_, settings)
    for draft, verdict in zip(drafts, judgement["verdicts"]):
        draft["verdict"] = verdict
        draft["bias_tv"] = rng.random() if verdict in ("accepted", "rejected") else None
    if judgement["kind"]:
        round_["emitted"] = {"kind": judgement["kind"], "token": judgement["token"] or rng.choice(TOKENS), "prob": rng.random()}
    return round_


def _draft(rng: random.Random, i: int, settings: Settings) -> dict[str, Any]:
    draft_prob, target_prob = (rng.choice([rng.random(), rng.choice(EDGES)]) for _ in range(2))
    drafted = dict(rng.choice(TOKENS))
    draft = {
        "position": i + 1, "offset": i + 2, "token": drafted, "draft_prob": draft_prob, "target_prob": target_prob,
        "raw_draft_prob": draft_prob, "raw_target_prob": target_prob, "ratio": target_prob / draft_prob if draft_prob > 0 else None,
        "u": rng.random(), "entropy": rng.random() * 4, "verdict": "unjudged", "bias_tv": None,
        "trunk_token": drafted if rng.random() < 0.6 else rng.choice(TOKENS), "top_draft": [], "top_target": [],
    }
    draft["gate"] = rules.gate(
        settings.rule, draft_prob=draft_prob, u=draft["u"], entropy=draft["entropy"], threshold=settings.threshold,
        epsilon=settings.epsilon, delta=settings.delta, temperature=settings.temperature,
    )
    if rng.random() < 0.1:
        draft["ends"] = True
    return draft


def random_trace(rng: random.Random, rounds: int) -> dict[str, Any]:
    settings = random_settings(rng)
    trace = {
        "schema": 1,
        "model": {"trunk": "random", "heads": None, "family": "none", "dtype": "float32", "device": "cpu", "revision": "none"},
        "settings": settings.to_dict(), "prompt": {"text": "a", "tokens": [TOKENS[0]]},
        "prefill": rng.choice([None, {"length": 10, "token": TOKENS[0], "prob": 0.5, "raw_prob": 0.5, "top_target": [], "seconds": 0.02}]),
        "rounds": [random_round(rng, i, settings) for i in range(rounds)], "output": {"text": "", "tokens": []}, "finish_reason": "length",
        "seconds": {"load": 0.0, "prefill": 0.0, "draft": 0.0, "verify": 0.0, "total": rng.choice([0.0, rng.random()])}, "host": "", "version": "",
    }
    output = trace["output"]["tokens"]
    if trace["prefill"]:
        output.append(trace["prefill"]["token"])
    for round_ in trace["rounds"]:
        output += [draft["token"] for draft in round_["drafts"] if draft["verdict"] == "accepted"]
        output += [round_["emitted"]["token"]] if round_["emitted"] else []
    ended = [draft["token"] for round_ in trace["rounds"] for draft in round_["drafts"] if draft["verdict"] == "accepted" and draft.get("ends")]
    trace["output"]["text"] = join(piece for piece in output if not any(piece is end for end in ended))
    return trace


def answers(seed: int = 0, rounds: int = 1000, traces: int = 60) -> dict[str, Any]:
    rng = random.Random(seed)
    judged = []
    for i in range(rounds):
        round_, settings = random_round(rng, i, random_settings(rng)), random_settings(rng)
        judged.append({"round": round_, "settings": settings.to_dict(), "judgement": judge_again(round_, settings)})
    counted = [random_trace(rng, rng.randint(0, 12)) for _ in range(traces)]
    return {"judged": judged, "counted": [{"trace": trace, "counts": counts(trace)} for trace in counted]}


def atlas() -> dict[str, Any]:
    """An atlas of a scripted trunk, and each of its runs as Python unpacks it: by row, then `exact` or column."""
    from recorded import wordy_atlas

    from mtviz.atlas import LENGTHS, THRESHOLDS, expand

    packed = wordy_atlas()
    return {"packed": packed, "exact": [expand(packed, (n, None)) for n in LENGTHS], "ratio": [[expand(packed, (n, t)) for t in THRESHOLDS] for n in LENGTHS]}


if __name__ == "__main__":
    json.dump(answers(), sys.stdout)
