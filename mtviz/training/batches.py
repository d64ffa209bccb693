"""Batches of documents with their hidden states, in an order that depends on the step number alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .hidden import HiddenStates

Document = tuple[int, int]  # which corpus, which of its documents


@dataclass
class Batch:
    """Right-padded documents: `tokens` (batch, n) int64, `hidden` (batch, n, hidden_size) float32, `generated`
    (batch, n) bool: the token is the trunk's own, neither prompt nor padding."""

    tokens: Tensor
    hidden: Tensor
    generated: Tensor

    def to(self, device: str) -> Batch:
        return Batch(self.tokens.to(device), self.hidden.to(device), self.generated.to(device))


def collate(
    sources: Sequence[HiddenStates], documents: Sequence[Document], window: int = 0, dice: np.random.Generator | None = None
) -> Batch:
    """A batch of whole documents, or of at most `window` tokens of each, from a place in its generated part that `dice` chooses."""
    tokens, hidden, generated = [], [], []
    for which, document in documents:
        corpus = sources[which].corpus
        whole, prompt = corpus.document(document), corpus.prompt_len[document]
        part = slice(None)
        if 0 < window < len(whole):
            last = len(whole) - window
            first = int(dice.integers(min(last, max(0, prompt - 2)), last + 1))  # the first draft is for the token two on
            part = slice(first, first + window)
        tokens.append(torch.from_numpy(whole[part]))
        hidden.append(torch.from_numpy(sources[which].of(document)[part].astype(np.float32)))
        generated.append(torch.arange(len(whole))[part] >= prompt)
    return Batch(*(pad_sequence(rows, batch_first=True) for rows in (tokens, hidden, generated)))


def documents_of_step(documents: Sequence[Document], step: int, size: int, seed: int) -> list[Document]:
    """The documents of one training step: consecutive ones of each epoch's own shuffle."""
    chosen = []
    for position in range(step * size, (step + 1) * size):
        epoch, place = divmod(position, len(documents))
        order = np.random.default_rng((seed, epoch)).permutation(len(documents))
        chosen.append(documents[order[place]])
    return chosen
