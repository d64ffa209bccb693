"""Distillation of the trunk into its heads: what each position should predict, and how far off it is.

Notation: a document is x_0 .. x_{n-1}, the trunk's final hidden state at position t is h_t, and softmax(U h_t) is its
distribution of x_{t+1}. A draft made from h_t is for x_{t+2}, the trunk's own x_{t+1} being known by then, so its
teacher is softmax(U h_{t+1}). `Heads.unroll` says which draft sees what.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mtviz.heads import Heads

from .batches import Batch
from .losses import IGNORED, acceptance_loss, cross_entropy, divergence


def predictable(batch: Batch) -> Tensor:
    """Slots (batch, n - 1) whose draft is for a token that the trunk wrote; the last slot has no token to guess."""
    return torch.nn.functional.pad(batch.generated[:, 2:], (0, 1))[:, : batch.tokens.shape[1] - 1]


def teacher_logits(heads: Heads, batch: Batch, slots: Tensor) -> Tensor:
    """The trunk's logits (m, Vd) over the draft vocabulary for the drafts of the chosen `slots` (batch, n - 1)."""
    return heads.unembed(batch.hidden[:, 1:][slots])


def draft_targets(heads: Heads, batch: Batch, slots: Tensor) -> Tensor:
    """The tokens (m,) that the drafts of the chosen `slots` are for, as places in the draft vocabulary; IGNORED outside it."""
    tokens = batch.tokens[:, 1:].roll(-1, dims=1)[slots]  # the last slot, where the roll comes round, is never chosen
    place = torch.searchsorted(heads.draft_ids, tokens).clamp_max(len(heads.draft_ids) - 1)
    return torch.where(heads.draft_ids[place] == tokens, place, IGNORED)


def distillation_loss(
    heads: Heads, batch: Batch, depth: int, loss: str = "kl", thin: float = 1.0, generator: torch.Generator | None = None
) -> list[Tensor]:
    """Loss in nats of each of `depth` drafts: KL to the trunk, -log of the chance of acceptance, or cross-entropy with the
    text. Draft k is scored on a share thin^k of its slots, drawn with `generator`."""
    slots = predictable(batch)
    if not slots.any():  # a zero that can still be differentiated
        return [torch.stack([weight.sum() for weight in heads.parameters()]).sum() * 0.0] * depth
    with torch.no_grad():
        if loss == "cross_entropy":
            score, target = cross_entropy, draft_targets(heads, batch, slots)
        else:
            score, target = {"kl": divergence, "acceptance": acceptance_loss}[loss], teacher_logits(heads, batch, slots)
        reach = torch.arange(slots.shape[1], device=slots.device).expand_as(slots)[slots]
    losses = []
    for k, output in enumerate(heads.unroll(batch.tokens, batch.hidden, depth)):
        usable = reach >= k
        if thin < 1 and k:
            usable &= (torch.rand(len(usable), generator=generator) < thin**k).to(usable.device)
        losses.append(score(heads.unembed(output[slots][usable]), target[usable]))
    return losses
