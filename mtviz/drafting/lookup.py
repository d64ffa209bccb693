"""N-gram lookup: draft by copying what followed the last tokens' previous occurrence.

Source: prompt lookup decoding (A. Saxena 2023), as in transformers' `prompt_lookup_num_tokens`.
"""

from __future__ import annotations

from typing import Sequence

import torch

from mtviz.drafting.protocol import Proposal, Sample

LONGEST_NGRAM = 3


class LookupDrafter:
    """Copies from the sequence itself. Needs no weights; its law is one-hot, since it chooses instead of drawing.

    The last occurrence of the longest matching n-gram (3 tokens, then fewer, down to `shortest_ngram`) is continued; where there
    is none, nothing is drafted. An index of n-gram ends keeps a proposal independent of the sequence's length.
    """

    name = "lookup"

    def __init__(self, vocab_size: int, max_draft_tokens: int = 8, shortest_ngram: int = 1):
        self.vocab_size = vocab_size
        self.max_draft_tokens = max_draft_tokens
        self.shortest_ngram = shortest_ngram
        self.start()

    def start(self) -> None:
        self._ends: dict[tuple[int, ...], int] = {}  # n-gram -> where the token after its last occurrence stands
        self._indexed = 0

    def observe(self, hidden: torch.Tensor, next_ids: Sequence[int]) -> None:
        """Nothing to learn: the sequence itself comes with `propose`."""

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, sample: Sample | None = None) -> Proposal:
        self._index(sequence)
        tokens: list[int] = []
        for n in range(min(LONGEST_NGRAM, len(sequence)), self.shortest_ngram - 1, -1):
            found = self._ends.get(tuple(sequence[-n:]))
            if found is not None:
                tokens = list(sequence[found : found + num_draft_tokens])
                break
        # A one-hot law passes through temperature, top-k and top-p unchanged.
        probs = torch.zeros(len(tokens), self.vocab_size, dtype=torch.float64)
        probs[torch.arange(len(tokens)), tokens] = 1.0
        return Proposal(tokens, probs, probs, copied=True)

    def _index(self, sequence: Sequence[int]) -> None:
        """Add every n-gram that now has a token after it. The one at the very end has none yet."""
        for end in range(max(self._indexed, 1), len(sequence)):
            for n in range(self.shortest_ngram, min(LONGEST_NGRAM, end) + 1):
                self._ends[tuple(sequence[end - n : end])] = end
        self._indexed = len(sequence)
