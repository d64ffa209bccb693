"""Heads as a drafter."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from mtviz.drafting.protocol import Choice, Proposal, Sample
from mtviz.heads import Heads


class HeadsDrafter:
    """Drafts with a family of heads: argmaxes at temperature 0 (ties: lowest id), draws from its own law above.

    Observed pairs wait until a proposal is asked for, so that rounds without drafts cost nothing.
    """

    def __init__(self, heads: Heads) -> None:
        self.heads = heads
        self.name = heads.family
        self.max_draft_tokens = heads.max_draft_tokens
        self.start()

    def start(self) -> None:
        self._state = self.heads.start()
        self._hidden: list[Tensor] = []
        self._next_ids: list[int] = []

    def observe(self, hidden: Tensor, next_ids: Sequence[int]) -> None:
        if len(hidden) != len(next_ids):
            raise ValueError(f"{len(hidden)} hidden states cannot be paired with {len(next_ids)} tokens")
        self._hidden.append(hidden)
        self._next_ids.extend(next_ids)

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, sample: Sample) -> Proposal:
        if num_draft_tokens and self._hidden:
            self.heads.observe(self._state, torch.cat(self._hidden), self._next_ids)
            self._hidden, self._next_ids = [], []
        choices: list[Choice] = []
        tokens: list[int] = []
        for i in range(min(num_draft_tokens, self.max_draft_tokens)):
            logits = self.heads.step(self._state, i, tokens[-1] if tokens else None)
            if not self._goes_on(logits, choices):
                break
            choices.append(sample(logits))
            tokens.append(int(self.heads.draft_ids[choices[-1].index]))
        laws = torch.zeros(2, len(tokens), self.heads.trunk.vocab_size, dtype=torch.float64, device=self.heads.draft_ids.device)
        for i, choice in enumerate(choices):
            laws[0, i, self.heads.draft_ids], laws[1, i, self.heads.draft_ids] = choice.raw_probs, choice.probs
        return Proposal(tokens, draft_probs=laws[1], raw_draft_probs=laws[0])

    def _goes_on(self, logits: Tensor, choices: Sequence[Choice]) -> bool:
        """Whether to draw one more draft from `logits` (Vd,) after those chosen so far."""
        return True
