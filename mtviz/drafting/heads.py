"""Heads as a drafter."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from mtviz.drafting.protocol import Proposal, Sample
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
        count = min(num_draft_tokens, self.max_draft_tokens)
        laws = torch.zeros(2, count, self.heads.trunk.vocab_size, dtype=torch.float64, device=self.heads.draft_ids.device)
        tokens: list[int] = []
        if count and self._hidden:
            self.heads.observe(self._state, torch.cat(self._hidden), self._next_ids)
            self._hidden, self._next_ids = [], []
        for i in range(count):
            choice = sample(self.heads.step(self._state, i, tokens[-1] if tokens else None))
            tokens.append(int(self.heads.draft_ids[choice.index]))
            laws[:, i, self.heads.draft_ids] = torch.stack([choice.raw_probs, choice.probs])
        return Proposal(tokens, draft_probs=laws[1], raw_draft_probs=laws[0])
