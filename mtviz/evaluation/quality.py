"""Quality of text under a trunk: perplexity, every token scored once and every token weighing the same."""

from __future__ import annotations

import math
from typing import Iterable, Iterator, Sequence

import torch

from mtviz.trunk import Trunk


def windows(length: int, window: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Cut a sequence of `length` tokens into overlapping windows: (begin, end, first token to score).

    Tokens 1 .. length - 1 are scored exactly once each, and each but the first window's sees at least
    window - stride tokens before it where there are so many. Raises ValueError unless 1 <= stride < window.
    """
    if not 1 <= stride < window:
        raise ValueError(f"stride must be from 1 to {window - 1}, below the window; got {stride}")
    scored, begin = 1, 0
    while scored < length:
        end = min(begin + window, length)
        yield begin, end, scored
        scored = end
        begin += stride


def perplexity(losses: Iterable[tuple[float, int]]) -> float | None:
    """exp of the mean loss a token, from (mean loss in nats, tokens) of each part; None without any token."""
    parts = [(loss, count) for loss, count in losses if count]
    tokens = sum(count for _, count in parts)
    return math.exp(math.fsum(loss * count for loss, count in parts) / tokens) if tokens else None


def text_perplexity(trunk: Trunk, ids: Sequence[int], window: int = 1024, stride: int = 512) -> float | None:
    """Perplexity of a token sequence under the trunk, in overlapping windows; None for fewer than two tokens."""
    return perplexity(text_losses(trunk, ids, min(window, trunk.context), stride))


@torch.inference_mode()
def text_losses(trunk: Trunk, ids: Sequence[int], window: int, stride: int) -> Iterator[tuple[float, int]]:
    """Parts for `perplexity`: mean loss in nats and number of tokens of each window."""
    for begin, end, first in windows(len(ids), window, stride):
        logits, _ = trunk.forward(ids[begin:end], trunk.new_cache())
        targets = torch.tensor(ids[first:end], device=logits.device)
        # The logits at a position are for the token after it.
        rows = logits[first - 1 - begin : end - 1 - begin].double()
        yield float(torch.nn.functional.cross_entropy(rows, targets)), end - first


@torch.inference_mode()
def continuation_loss(trunk: Trunk, prompt: Sequence[int], ids: Sequence[int]) -> tuple[float, int]:
    """Mean loss in nats of `ids` after `prompt`, and how many they are: a part for `perplexity`. Needs a prompt token."""
    if not ids:
        return 0.0, 0
    logits, _ = trunk.forward([*prompt, *ids[:-1]], trunk.new_cache())
    rows = logits[len(prompt) - 1 :].double()
    return float(torch.nn.functional.cross_entropy(rows, torch.tensor(list(ids), device=rows.device))), len(ids)
