"""Losses: cross-entropy on shifted targets, as the multi-token prediction tutorial means it, and three ways to learn a trunk's law.

In the first group `predictions` are (batch, heads, seq, vocab) and `labels` (batch, seq) the tokens themselves:
predictions[:, i, t] is for labels[:, t + 1 + i], so index 0 is an ordinary next-token head. The shift is made here, once.
"""

from __future__ import annotations

from typing import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

IGNORED = -100  # a label that is no target, as in transformers


def head_losses(predictions: Tensor, labels: Tensor) -> list[Tensor | None]:
    """Mean cross-entropy of each head in nats, None for a head that has no target.

    Raises ValueError for shapes other than (batch, heads, seq, vocab) and (batch, seq).
    """
    if predictions.dim() != 4 or labels.dim() != 2 or (predictions.shape[0], predictions.shape[2]) != tuple(labels.shape):
        raise ValueError(
            "predictions must be (batch, heads, seq, vocab) and labels (batch, seq) of the same batch and seq; "
            f"got {tuple(predictions.shape)} and {tuple(labels.shape)}"
        )
    losses: list[Tensor | None] = []
    for i in range(predictions.shape[1]):
        targets = labels[:, 1 + i :]  # empty where the sequence is no longer than the head's offset
        logits = predictions[:, i, : targets.shape[1]]
        counted = targets != IGNORED
        losses.append(functional.cross_entropy(logits[counted].float(), targets[counted]) if counted.any() else None)
    return losses


def multi_token_loss(predictions: Tensor, labels: Tensor) -> Tensor:
    """Sum of the heads' cross-entropies over the number of heads that have a target; 0 where none has."""
    return _combined(predictions, labels, lambda i: 1.0)


def weighted_multi_token_loss(predictions: Tensor, labels: Tensor, decay: float | None = None) -> Tensor:
    """The same with weights: 1 / (i + 1) for head i, or decay^i where a `decay` is given."""
    return _combined(predictions, labels, (lambda i: 1 / (i + 1)) if decay is None else (lambda i: decay**i))


def _combined(predictions: Tensor, labels: Tensor, weight: Callable[[int], float]) -> Tensor:
    parts = [weight(i) * loss for i, loss in enumerate(head_losses(predictions, labels)) if loss is not None]
    # Without a target: a zero that can still be differentiated, whatever the predictions hold.
    return torch.stack(parts).sum() / len(parts) if parts else predictions[:0].sum()


def divergence(logits: Tensor, teacher: Tensor) -> Tensor:
    """Mean KL(teacher || draft) in nats over rows of logits (m, Vd); 0 where there are none."""
    if not len(logits):
        return logits.sum() * 0.0
    target = torch.log_softmax(teacher, -1)
    return functional.kl_div(torch.log_softmax(logits, -1), target, reduction="batchmean", log_target=True)


def acceptance_loss(logits: Tensor, teacher: Tensor) -> Tensor:
    """Mean -log sum(min(p, q)) over rows of logits (m, Vd): the chance that speculative sampling accepts a draft is that
    sum (Leviathan et al. 2023, corollary 3.6). 0 where there are no rows."""
    if not len(logits):
        return logits.sum() * 0.0
    # Summed as logarithms: where p and q hardly overlap the sum itself would round to 0.
    shared = torch.minimum(torch.log_softmax(logits, -1), torch.log_softmax(teacher, -1))
    return -torch.logsumexp(shared, -1).mean()


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean over rows of logits (m, Vd) whose target (m,) is not IGNORED; 0 where there are none."""
    counted = targets != IGNORED
    return functional.cross_entropy(logits[counted], targets[counted]) if counted.any() else logits[:0].sum()


def weighted(losses: Sequence[Tensor], decay: float) -> Tensor:
    """Mean of the heads' losses with weights decay^k."""
    weights = torch.tensor([decay**k for k in range(len(losses))])
    return torch.stack(list(losses)).mul(weights.to(losses[0].device)).sum() / weights.sum()
