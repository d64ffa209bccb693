"""N-gram lookup first, heads where the text does not repeat itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from mtviz.drafting.adaptive import AdaptiveDrafter
from mtviz.drafting.lookup import LookupDrafter
from mtviz.drafting.protocol import Proposal, Sample
from mtviz.heads import Heads
from mtviz.heads.length import LengthPredictor

SHORTEST_NGRAM = 2  # one token that stood before says too little: heads guess better then
COST = 0.3  # of a draft and its verification, in trunk passes: the fastest of those tried on two CPU cores (docs/speed.md)


class HybridDrafter(AdaptiveDrafter):
    """Copies where the last two tokens or more stood before; elsewhere it drafts as `adaptive` does. A copy puts off what
    the heads have to read until they draft again, and which of the two drafts is known before any token is drawn."""

    def __init__(self, heads: Heads, predictor: LengthPredictor) -> None:
        self._lookup = LookupDrafter(heads.trunk.vocab_size, shortest_ngram=SHORTEST_NGRAM)
        super().__init__(heads, replace(predictor, cost=COST))
        self.name = "hybrid"

    def start(self) -> None:
        super().start()
        self._lookup.start()

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, sample: Sample) -> Proposal:
        copy = self._lookup.propose(sequence, num_draft_tokens)
        return copy if copy.tokens else super().propose(sequence, num_draft_tokens, sample)
