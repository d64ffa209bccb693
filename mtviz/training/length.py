"""Fitting the length predictor: measured acceptance, a logistic model, and how far its predictions can be trusted.

Decoding is replayed on held-out documents. From every position a round of greedy drafts is judged against the trunk's own
greedy choices, exactly as `match` does at temperature 0. Only documents that the heads were not trained on count, half
of them for fitting and half for checking.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import torch
from torch import Tensor

from mtviz.heads import Heads
from mtviz.heads.length import MEASURES, LengthPredictor, measures

from .batches import Document, collate
from .distillation import predictable
from .hidden import HiddenStates

BINS = 10


class Judged(NamedTuple):
    """Drafts of one position, all of whose predecessors were accepted: the round's slot, measures (m, 5), verdicts (m,)."""

    start: Tensor
    measures: Tensor
    accepted: Tensor


@torch.no_grad()
def replay(heads: Heads, source: HiddenStates, document: int) -> list[Judged]:
    """Every draft that decoding this document would judge, by position, from a round at each of its slots.

    After an accepted draft the round goes on only where the document has that token, since the trunk's states are known
    only there. What is left out does not depend on the verdicts to come.
    """
    batch = collate([source], [(0, document)]).to(heads.trunk.device)
    slots = torch.nonzero(predictable(batch)[0])[:, 0]
    if not len(slots):
        return []
    choice = heads.trunk.unembed(batch.hidden[0, 1:]).argmax(-1)
    following = batch.tokens[0, 1:].roll(-1)
    start = slots
    previous, past = torch.zeros(len(start)).double(), torch.zeros(len(start)).double()
    rounds = []
    for k, output in enumerate(heads.unroll(batch.tokens, batch.hidden, heads.max_draft_tokens)):
        inside = start + k <= slots[-1]
        start, previous, past = start[inside], previous[inside], past[inside]
        logits = heads.unembed(output[0, start + k])
        drafted = heads.draft_ids[logits.argmax(-1)]
        accepted = drafted == choice[start + k]
        rounds.append(Judged(start, measures(logits, previous, past), accepted))
        on = accepted & (following[start + k] == drafted)
        previous = torch.log_softmax(logits.double(), -1).amax(-1)[on]
        start, past = start[on], past[on] + previous
    return rounds


def fit(drafts: Sequence[Judged], ridge: float = 1e-3) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Weights and one offset a position, by penalised maximum likelihood, from each position's judged drafts."""
    x = torch.cat([judged.measures for judged in drafts])
    y = torch.cat([judged.accepted for judged in drafts]).double()
    place = torch.cat([torch.full((len(judged.accepted),), i) for i, judged in enumerate(drafts)])
    centre, scale = x.mean(0), x.std(0).clamp_min(1e-6)
    x = (x - centre) / scale
    weights = torch.zeros(len(MEASURES), dtype=torch.float64, requires_grad=True)
    common = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    apart = torch.zeros(len(drafts), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, common, apart], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(x @ weights + common + apart[place], y)
        # Late positions have few examples: their offsets stay near the common one.
        loss = loss + ridge * (weights.square().sum() + apart.square().sum())
        loss.backward()
        return loss

    optimizer.step(closure)
    plain = (weights / scale).detach()
    offsets = (common + apart).detach() - plain @ centre
    return tuple(plain.tolist()), tuple(offsets.tolist())


def reliability(predictor: LengthPredictor, drafts: Sequence[Judged]) -> dict[str, Any]:
    """Predicted and measured acceptance in ten bins of the prediction, the mean gap between them weighted by count (expected
    calibration error), and both by position."""
    weights = torch.tensor(predictor.weights, dtype=torch.float64)
    predicted = [torch.sigmoid(judged.measures @ weights + predictor.offsets[i]) for i, judged in enumerate(drafts)]
    p, y = torch.cat(predicted), torch.cat([judged.accepted for judged in drafts]).double()
    which = (p * BINS).long().clamp_max(BINS - 1)
    bins = [(int((which == b).sum()), p[which == b].mean().item(), y[which == b].mean().item()) for b in range(BINS) if (which == b).any()]
    return {
        "bins": [{"drafts": n, "predicted": round(a, 4), "measured": round(b, 4)} for n, a, b in bins],
        "expected_calibration_error": round(sum(n * abs(a - b) for n, a, b in bins) / len(y), 4),
        "by_position": [
            {"judged": len(a), "predicted": round(a.mean().item(), 4), "measured": round(judged.accepted.double().mean().item(), 4)}
            for a, judged in zip(predicted, drafts) if len(a)
        ],
    }  # fmt: skip


def pooled(rounds: Sequence[Sequence[Judged]], positions: int) -> list[Judged]:
    """All documents' drafts, by position."""
    return [Judged(*(torch.cat(parts) for parts in zip(*(r[i] for r in rounds if i < len(r))))) for i in range(positions)]


def fit_length(heads: Heads, sources: Sequence[HiddenStates], held: Sequence[Document], cost: float) -> LengthPredictor:
    """A predictor for `heads` from held-out documents; `fitted` holds its reliability on every second one of them.

    Raises ValueError where there are fewer than two documents with drafts.
    """
    rounds = [r for which, document in held if (r := replay(heads, sources[which], document))]
    if len(rounds) < 2:
        raise ValueError("a length predictor needs at least two held-out documents with generated text")
    fitting, checking = pooled(rounds[::2], heads.max_draft_tokens), pooled(rounds[1::2], heads.max_draft_tokens)
    weights, offsets = fit(fitting)
    predictor = LengthPredictor(heads.family, heads.fingerprint, heads.trunk_fingerprint, weights, offsets, cost, {})
    predictor.fitted.update(
        data=[{"file": source.corpus.path.name, "sha256": source.corpus.sha256} for source in sources],
        documents=[len(rounds[::2]), len(rounds[1::2])],
        drafts=sum(len(judged.accepted) for judged in fitting),
        reliability=reliability(predictor, checking),
    )
    return predictor
