"""What the loop asks of a drafter, and what it gets back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, NamedTuple, Protocol, Sequence

import torch


class Choice(NamedTuple):
    """One entry chosen among logits (n,), with the laws (n,) float64: the raw softmax, and after the run's settings."""

    index: int
    raw_probs: torch.Tensor
    probs: torch.Tensor


Sample = Callable[[torch.Tensor], Choice]
"""How this run chooses: logits (n,) to a Choice, the argmax at temperature 0, else a draw from the law after the settings."""


@dataclass
class Proposal:
    """A round's draft tokens and the laws that they were drawn from.

    `draft_probs` and `raw_draft_probs` are float64 of shape (k, vocabulary), zero outside the draft vocabulary: after
    temperature and top-k/top-p (at temperature 0 the temperature-1 softmax after top-k/top-p), and the plain softmax. A
    drafter that chooses instead of drawing has a law of one on each of its tokens, and both tables hold that.
    `survivals`, of a drafter that chooses its length: the predicted survival of each draft, and of the one that was not
    worth its price where it stopped by itself. `copied` from the text before, by lookup, instead of drawn.
    """

    tokens: list[int]
    draft_probs: torch.Tensor
    raw_draft_probs: torch.Tensor
    survivals: list[float] | None = None
    copied: bool = False


class Drafter(Protocol):
    """Proposes tokens. Told every true (hidden state, next token) pair in order, and nothing of rejected ones.

    `observe` after the prefill covers all prompt positions; after a round it covers the accepted positions, the newest
    last. What a drafter remembers of its own proposals it must forget at the next `observe`. One with weights has them
    as `heads`, with their `family`, `fingerprint` and `note`, and one that chooses its length has a `predictor` with its
    `fingerprint`, which the Trace tells.
    """

    name: str
    max_draft_tokens: int

    def start(self) -> None:
        """Forget everything: a new sequence begins."""

    def observe(self, hidden: torch.Tensor, next_ids: Sequence[int]) -> None:
        """`hidden` (n, width) are the trunk's states at the next n positions; `next_ids` the n tokens that followed."""

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, sample: Sample) -> Proposal:
        """Draft at most `num_draft_tokens` tokens to follow `sequence`, all token ids so far, the newest of which is not
        cached yet. It may draft fewer, but whether position i is drafted may depend only on what was known before its
        token was drawn. Tokens are drawn by `sample`, once a position, in order."""
