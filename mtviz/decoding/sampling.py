"""From logits to laws, and from laws to tokens. All in float64, pure, on any device.

Temperature, then top-k, then top-p, in that order, as `transformers.generate` applies them.
"""

from __future__ import annotations

from typing import Callable, Sequence

import torch

from mtviz.drafting.protocol import Choice, Sample
from mtviz.settings import Settings


def process(logits: torch.Tensor, settings: Settings) -> tuple[torch.Tensor, torch.Tensor]:
    """Raw and processed distributions of `logits` (..., vocabulary), both float64 of the same shape.

    The processed one is after temperature, top-k and top-p; at temperature 0 it is the temperature-1 softmax after
    top-k and top-p, which the lossy rules judge by. Ties at the top-k border are all kept; at the top-p border the
    lower ids come first.
    """
    logits = logits.double()
    raw = torch.softmax(logits, dim=-1)
    if settings.temperature in (0.0, 1.0) and not settings.top_k and settings.top_p == 1.0:
        return raw, raw
    if settings.temperature > 0:
        # Subtracting the maximum first keeps a tiny temperature from overflowing.
        logits = (logits - logits.amax(-1, keepdim=True)) / settings.temperature
    if 0 < settings.top_k < logits.shape[-1]:
        smallest_kept = logits.topk(settings.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < smallest_kept, -torch.inf)
    probs = torch.softmax(logits, dim=-1)
    if settings.top_p < 1.0:
        ordered, order = probs.sort(dim=-1, descending=True, stable=True)
        outside = ordered.cumsum(-1) - ordered >= settings.top_p  # mass before a token; the first is always kept
        probs = probs.masked_fill(outside.scatter(-1, order, outside), 0.0)
        probs = probs / probs.sum(-1, keepdim=True)
    return raw, probs


def draw(probs: torch.Tensor, uniforms: Sequence[float]) -> list[int]:
    """One token per row of `probs` (n, vocabulary), at that row's uniform in [0, 1) of its cumulative distribution.

    A token of probability 0 is never drawn. Rows need not be normalised, only have positive mass.
    """
    cumulative = probs.cumsum(-1)
    uniform = torch.tensor([uniforms], dtype=probs.dtype, device=probs.device).mT
    # In float64 u * total < total for every u < 1: the first entry above it is there, and it has mass.
    return torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)[:, 0].tolist()


def choose(probs: torch.Tensor, settings: Settings, uniforms: Sequence[float]) -> list[int]:
    """One token per row of `probs` (n, vocabulary): the argmax at temperature 0 (ties: lowest id), else drawn. The caller
    takes the uniforms from its generator at any temperature, so that a seed means the same at each."""
    return probs.argmax(-1).tolist() if settings.temperature == 0 else draw(probs, uniforms)


def sampler(settings: Settings, uniform: Callable[[], float]) -> Sample:
    """How a drafter's tokens are chosen in this run. `uniform()` gives the next draw in [0, 1)."""

    def sample(logits: torch.Tensor) -> Choice:
        raw_probs, probs = process(logits, settings)
        return Choice(choose(probs[None], settings, [uniform()])[0], raw_probs, probs)

    return sample


def residual(target_probs: torch.Tensor, draft_probs: torch.Tensor) -> torch.Tensor:
    """The law of a recovered token under `speculative`: max(0, p - q), normalised; p itself where that is all zero."""
    excess = (target_probs - draft_probs).clamp_min(0.0)
    mass = excess.sum()
    return excess / mass if mass > 0 else target_probs


def entropy(probs: torch.Tensor) -> torch.Tensor:
    """Entropy in nats over the last dimension, shape (...)."""
    return torch.special.entr(probs).sum(-1)
