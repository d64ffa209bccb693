"""Heads that draft as long as it is worth it."""

from __future__ import annotations

import math
from typing import Sequence

import torch

from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.protocol import Proposal, Sample
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
        if self._hidden:
            self.heads.observe(self._state, torch.cat(self._hidden), self._next_ids)
            self._hidden, self._next_ids = [], []
        count = min(num_draft_tokens, self.max_draft_tokens)
        laws = torch.zeros(2, count, self.heads.trunk.vocab_size, dtype=torch.float64, device=self.heads.draft_ids.device)
        tokens: list[int] = []
        survivals: list[float] = []
        survival, previous, past = 1.0, 0.0, 0.0
        for i in range(count):
            logits = self.heads.step(self._state, i, tokens[-1] if tokens else None)
            survival *= self.predictor.chance(i, logits, previous, past)
            worth = self.predictor.worth(i, survival, sum(survivals))
            survivals.append(survival)
            if not worth:
                break
            choice = sample(logits)
            tokens.append(int(self.heads.draft_ids[choice.index]))
            laws[:, i, self.heads.draft_ids] = torch.stack([choice.raw_probs, choice.probs])
            previous = math.log(max(float(choice.raw_probs[choice.index]), 1e-300))
            past += previous
        laws = laws[:, : len(tokens)]
        return Proposal(tokens, draft_probs=laws[1], raw_draft_probs=laws[0], survivals=survivals)
