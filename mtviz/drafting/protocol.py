"""What the loop asks of a drafter, and what it gets back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Protocol, Sequence

import torch

from mtviz.settings import Settings


@dataclass
class Proposal:
    """A round's draft tokens and the laws that they were drawn from.

    `draft_probs` and `raw_draft_probs` are float64 of shape (k, vocabulary), zero outside the draft vocabulary: after
    temperature and top-k/top-p (at temperature 0 the temperature-1 softmax after top-k/top-p), and the plain softmax. A drafter that chooses
    instead of drawing has a law of one on each of its tokens, and both tables hold that.
    """

    tokens: list[int]
    draft_probs: torch.Tensor
    raw_draft_probs: torch.Tensor


class Drafter(Protocol):
    """Proposes tokens. Told every true (hidden state, next token) pair in order, and nothing of rejected ones.

    `observe` after the prefill covers all prompt positions; after a round it covers the accepted positions, the newest
    last. What a drafter remembers of its own proposals it must forget at the next `observe`. One with weights has them
    as `heads`, with their `family` and `note`, which the Trace tells.
    """

    name: str
    max_draft_tokens: int

    def start(self) -> None:
        """Forget everything: a new sequence begins."""

    def observe(self, hidden: torch.Tensor, next_ids: Sequence[int]) -> None:
        """`hidden` (n, width) are the trunk's states at the next n positions; `next_ids` the n tokens that followed."""

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, settings: Settings, uniform: Callable[[], float]) -> Proposal:
        """Draft at most `num_draft_tokens` tokens to follow `sequence` (all token ids so far, the last one emitted but
        not cached yet). May draft fewer, but whether position i is drafted may depend only on what was known before its token was drawn.
        `uniform()` gives the next draw in [0, 1)."""
