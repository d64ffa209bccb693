"""Recording: the loop's steps written down as a Trace, while it runs. Nothing here decides anything."""

from __future__ import annotations

import codecs
import platform
import time
from typing import TYPE_CHECKING, Iterator

import torch

import mtviz
from mtviz import rules, text
from mtviz.decoding.bias import bias_tv
from mtviz.decoding.loop import PrefillStep, RoundStep, decode
from mtviz.drafting.protocol import Drafter
from mtviz.settings import Settings
from mtviz.trace import SCHEMA, TOP, Candidate, Draft, ModelInfo, Prefill, Round, Share, Trace

if TYPE_CHECKING:
    from mtviz.trunk import Trunk


def decode_trace(
    trunk: Trunk, drafter: Drafter | None, prompt_text: str, settings: Settings, *, load_seconds: float = 0.0
) -> Iterator[Trace]:
    """Decode `prompt_text` and yield the same growing Trace: after the prefill, and after every round.

    Errors as in `mtviz.decoding.loop.decode`, raised at the first `next`. A caller that stops early holds a Trace whose
    `finish_reason` is null, and says itself why.
    """
    prompt = trunk.encode(prompt_text, raw=settings.raw)
    steps = decode(trunk, drafter, prompt, settings)
    trace: Trace = {
        "schema": SCHEMA,
        "model": model_info(trunk, drafter),
        "settings": settings.to_dict(),
        "prompt": {"text": prompt_text, "tokens": [_token(trunk, id_) for id_ in prompt]},
        "prefill": None,
        "rounds": [],
        "output": {"text": "", "tokens": []},
        "finish_reason": None,
        "seconds": {"load": load_seconds, "prefill": 0.0, "draft": 0.0, "verify": 0.0, "total": 0.0},
        "host": f"{platform.system()} {platform.machine()}",
        "version": f"mtviz {mtviz.__version__}, torch {torch.__version__}",
    }
    decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
    seconds = trace["seconds"]
    resumed = time.perf_counter()
    for step in steps:
        if isinstance(step, PrefillStep):
            trace["prefill"] = _prefill(trunk, step, len(prompt))
            seconds["prefill"] = step.seconds
            new_tokens = [step.token]
        else:
            trace["rounds"].append(_round(trunk, step, len(trace["rounds"]), settings))
            seconds["draft"] += step.draft_seconds
            seconds["verify"] += step.verify_seconds
            new_tokens = step.new_tokens
        pieces = [_token(trunk, id_) for id_ in new_tokens]
        trace["output"]["tokens"] += pieces
        words = [piece for piece in pieces if piece["id"] not in trunk.end_ids]  # an end token is a sign, not text
        trace["output"]["text"] += decoder.decode(b"".join(text.piece_bytes(piece) for piece in words))
        trace["finish_reason"] = step.finish_reason
        seconds["total"] += time.perf_counter() - resumed
        yield trace
        resumed = time.perf_counter()  # what the consumer did meanwhile is not decoding time


def model_info(trunk: Trunk, drafter: Drafter | None) -> ModelInfo:
    heads = getattr(drafter, "heads", None)  # a drafter without weights has none
    info: ModelInfo = {
        "trunk": trunk.name,
        "heads": heads.family if heads is not None else None,
        "family": drafter.name if drafter is not None else "none",
        "dtype": trunk.dtype,
        "device": trunk.device,
        "revision": trunk.fingerprint,
    }
    if heads is not None and heads.fingerprint:
        info["heads_revision"] = heads.fingerprint
    if (predictor := getattr(drafter, "predictor", None)) is not None:
        info["length_revision"] = predictor.fingerprint
    if heads is not None and heads.note:
        info["note"] = heads.note
    return info


def _prefill(trunk: Trunk, step: PrefillStep, length: int) -> Prefill:
    return {
        "length": length,
        "token": _token(trunk, step.token),
        "prob": float(step.probs[0, step.token]),
        "raw_prob": float(step.raw_probs[0, step.token]),
        "top_target": _top(trunk, step.probs, step.raw_probs)[0],
        "seconds": step.seconds,
    }


def _round(trunk: Trunk, step: RoundStep, index: int, settings: Settings) -> Round:
    verification, proposal = step.verification, step.proposal
    k = len(proposal.tokens)
    top_draft = _top(trunk, proposal.draft_probs, proposal.raw_draft_probs)
    top_target = _top(trunk, step.probs, step.raw_probs)
    rows = torch.arange(k)
    scores = torch.stack(
        [table[rows, proposal.tokens] for table in (proposal.draft_probs, step.probs, proposal.raw_draft_probs, step.raw_probs)]
    ).tolist()
    drafts: list[Draft] = []
    for i, id_ in enumerate(proposal.tokens):
        draft_prob, target_prob, raw_draft_prob, raw_target_prob = (row[i] for row in scores)
        verdict = verification.verdicts[i]
        draft: Draft = {
            "position": i + 1,
            "offset": i + 2,
            "token": _token(trunk, id_),
            "draft_prob": draft_prob,
            "target_prob": target_prob,
            "raw_draft_prob": raw_draft_prob,
            "raw_target_prob": raw_target_prob,
            "ratio": target_prob / draft_prob if draft_prob > 0 else None,
            "u": step.uniforms[i],
            "gate": rules.gate(
                settings.rule, draft_prob=draft_prob, u=step.uniforms[i], entropy=step.entropies[i], threshold=settings.threshold,
                epsilon=settings.epsilon, delta=settings.delta, temperature=settings.temperature,
            ),
            "entropy": step.entropies[i],
            "verdict": verdict,
            "bias_tv": _bias(step, i, settings) if verdict in ("accepted", "rejected") else None,
            "trunk_token": _token(trunk, step.trunk_tokens[i]),
            "top_draft": top_draft[i],
            "top_target": top_target[i],
        }
        if id_ in trunk.end_ids:
            draft["ends"] = True
        if verdict == "rejected" and verification.recovery is not None:
            draft["residual"] = _shares(trunk, verification.recovery)
        drafts.append(draft)
    last = step.trunk_tokens[k]
    before, peak, after = step.cache_lengths
    round_: Round = {
        "index": index,
        "start": step.start,
        "drafts": drafts,
        "after": {
            "trunk_token": _token(trunk, last),
            "target_prob": float(step.probs[k, last]),
            "raw_target_prob": float(step.raw_probs[k, last]),
            "entropy": step.entropies[k],
            "top_target": top_target[k],
        },
        "emitted": None if verification.token is None else {
            "kind": verification.kind,
            "token": _token(trunk, verification.token),
            "prob": float(step.probs[verification.accepted, verification.token]),
        },
        "cache": {"before": before, "peak": peak, "after": after},
        "seconds": {"draft": step.draft_seconds, "verify": step.verify_seconds},
    }
    if proposal.survivals is not None:
        round_["predicted_survival"] = proposal.survivals
    if proposal.copied and k:
        round_["copied"] = True
    return round_


def _bias(step: RoundStep, i: int, settings: Settings) -> float:
    if settings.temperature > 0:
        return bias_tv(step.proposal.draft_probs[i], step.probs[i], step.entropies[i], settings)
    wrong = step.verification.verdicts[i] == "accepted" and step.proposal.tokens[i] != step.trunk_tokens[i]
    return float(wrong)


def _top(trunk: Trunk, probs: torch.Tensor, raw_probs: torch.Tensor) -> list[list[Candidate]]:
    """The largest entries of each row of raw_probs (n, vocabulary), with their processed probability beside them."""
    raw, ids = raw_probs.topk(min(TOP, raw_probs.shape[-1]), dim=-1)
    processed = probs.gather(-1, ids)
    return [
        [{"token": _token(trunk, i), "prob": p, "raw_prob": r} for i, p, r in zip(*row) if r > 0]
        for row in zip(ids.tolist(), processed.tolist(), raw.tolist())
    ]


def _shares(trunk: Trunk, law: torch.Tensor) -> list[Share]:
    probs, ids = law.topk(min(TOP, len(law)))
    return [{"token": _token(trunk, i), "prob": p} for i, p in zip(ids.tolist(), probs.tolist()) if p > 0]


def _token(trunk: Trunk, id_: int) -> text.Token:
    return text.token(id_, trunk.token_bytes(id_))
