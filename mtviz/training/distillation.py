"""Distillation of the trunk into its heads: what each position should predict, and how far off it is.

Notation: a document is x_0 .. x_{n-1}, the trunk's final hidden state at position t is h_t, and softmax(U h_t) is its
distribution of x_{t+1}. A draft made from h_t is for x_{t+2}, the trunk's own x_{t+1} being known by then, so its
teacher is softmax(U h_{t+1}).
"""

from __future__ import annotations

import torch
from torch import Tensor

from mtviz.heads import MtpHeads

from .batches import Batch


def unroll(heads: MtpHeads, tokens: Tensor, hidden: Tensor, depth: int) -> list[Tensor]:
    """Outputs of a recursive module at 1 .. `depth` applications, each (batch, n - 1, hidden_size).

    Slot s of every output has read the token s + 1 and predicts h_{s+1}. At application k it was given its own output
    of application k - 1 at slot s - 1 instead of h_s, as in decoding; it looks at true pairs up to slot s - k and at
    what the applications since have put at the slots between (training-time test, EAGLE-3, Li et al. 2025). Slots
    s < k have no such past and mean nothing.
    """
    slots = hidden.shape[1] - 1
    positions = torch.arange(slots, device=hidden.device)
    embeds = heads.embed(tokens[:, 1:])
    cache = heads.start().cache
    outputs: list[Tensor] = []
    current = hidden[:, :-1]
    for k in range(depth):
        mask = None if k == 0 else _unrolled_mask(positions, k)
        current = heads(current, embeds, positions[None], mask, cache if depth > 1 else None)
        outputs.append(current)
        current = torch.nn.functional.pad(current, (0, 0, 1, 0))[:, :-1]
    return outputs


def _unrolled_mask(positions: Tensor, k: int) -> Tensor:
    """(1, 1, n, (k + 1) n): the keys of applications 0 .. k, of which application j > 0 is seen at one slot only."""
    distance = positions[:, None] - positions
    return torch.cat([distance >= k, *(distance == k - j for j in range(1, k + 1))], dim=1)[None, None]


def predictable(batch: Batch) -> Tensor:
    """Slots (batch, n - 1) whose draft is for a token that the trunk wrote; the last slot has no token to guess."""
    return torch.nn.functional.pad(batch.generated[:, 2:], (0, 1))[:, : batch.tokens.shape[1] - 1]


def teacher_logits(heads: MtpHeads, batch: Batch, slots: Tensor) -> Tensor:
    """The trunk's logits (m, Vd) over the draft vocabulary for the drafts of the chosen `slots` (batch, n - 1)."""
    return heads.unembed(batch.hidden[:, 1:][slots])


def divergence(logits: Tensor, teacher: Tensor) -> Tensor:
    """Mean KL(teacher || draft) in nats over rows of logits (m, Vd); 0 where there are none."""
    if not len(logits):
        return logits.sum() * 0.0
    target = torch.log_softmax(teacher, -1)
    return torch.nn.functional.kl_div(torch.log_softmax(logits, -1), target, reduction="batchmean", log_target=True)


def distillation_loss(heads: MtpHeads, batch: Batch, depth: int) -> list[Tensor]:
    """KL to the trunk, in nats, at each of `depth` applications of a recursive module."""
    slots = predictable(batch)
    if not slots.any():  # a zero that can still be differentiated
        return [torch.stack([weight.sum() for weight in heads.parameters()]).sum() * 0.0] * depth
    with torch.no_grad():
        teacher = teacher_logits(heads, batch, slots)
        reach = torch.arange(slots.shape[1], device=slots.device).expand_as(slots)[slots]
    losses = []
    for k, output in enumerate(unroll(heads, batch.tokens, batch.hidden, depth)):
        usable = reach >= k
        losses.append(divergence(heads.unembed(output[slots][usable]), teacher[usable]))
    return losses


def weighted(losses: list[Tensor], decay: float) -> Tensor:
    """Mean of the applications' losses with weights decay^k."""
    weights = torch.tensor([decay**k for k in range(len(losses))])
    return torch.stack(losses).mul(weights.to(losses[0].device)).sum() / weights.sum()
