"""Heads that draft as long as it is worth it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Sequence

from torch import Tensor

from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.protocol import Choice, Proposal, Sample
from mtviz.heads import Heads
from mtviz.heads.length import LengthPredictor


class AdaptiveDrafter(HeadsDrafter):
    """A family of heads that stops before the first draft whose predicted survival does not pay for it.

    The decision is taken on a draft's law, before its token is drawn: dropping a token for what it is would change the law
    of those that stay, and with it the target's distribution. A round may have no drafts at all.
    """

    def __init__(self, heads: Heads, predictor: LengthPredictor) -> None:
        super().__init__(heads)
        self.name = "adaptive"
        self.max_draft_tokens = min(heads.max_draft_tokens, len(predictor.offsets))
        self.predictor = predictor

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, sample: Sample) -> Proposal:
        self._survivals: list[float] = []
        self._past = 0.0  # log-probability of the drafts so far
        return replace(super().propose(sequence, num_draft_tokens, sample), survivals=self._survivals)

    def _goes_on(self, logits: Tensor, choices: Sequence[Choice]) -> bool:
        previous = math.log(max(float(choices[-1].raw_probs[choices[-1].index]), 1e-300)) if choices else 0.0
        self._past += previous
        i, so_far = len(choices), self._survivals[-1] if choices else 1.0
        survival = so_far * self.predictor.chance(i, logits, previous, self._past)
        worth = self.predictor.worth(i, survival, sum(self._survivals))
        self._survivals.append(survival)
        return worth
