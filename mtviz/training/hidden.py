"""The trunk's hidden states of a corpus, computed once and kept in a file.

The trunk is frozen, and its forward pass costs several times what training the heads on its result does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator, Sequence

import numpy as np
import torch
from tqdm import tqdm

from mtviz.trunk import Trunk

from .corpus import Corpus

BATCH_TOKENS = 2048
SAVE_EVERY = 64  # documents


class HiddenStates:
    """Final hidden states of a corpus as float16 (tokens, hidden_size), mapped from disk; whole documents or none.

    float16 has three more bits of mantissa than bfloat16, and final hidden states stay far below its limit.
    """

    def __init__(self, trunk: Trunk, corpus: Corpus, directory: Path) -> None:
        self.trunk = trunk
        self.corpus = corpus
        path = directory / f"{trunk.fingerprint[:16]}-{corpus.sha256[:16]}"
        path.mkdir(parents=True, exist_ok=True)
        shape = (len(corpus.tokens), trunk.hidden_size)
        self._done_path = path / "done.npy"
        states = path / "hidden.npy"
        self._states = np.lib.format.open_memmap(states, "r+" if states.exists() else "w+", np.float16, shape)
        self.done = np.load(self._done_path) if self._done_path.exists() else np.zeros(len(corpus), bool)

    def of(self, document: int) -> np.ndarray:
        """float16 (document length, hidden_size)."""
        return self._states[self.corpus.starts[document] : self.corpus.starts[document + 1]]

    @torch.inference_mode()
    def compute(self, documents: Sequence[int]) -> None:
        """Compute those of `documents` that are missing. An interruption loses at most SAVE_EVERY of them."""
        todo = [d for d in documents if not self.done[d]]
        bar = tqdm(total=len(todo), desc="hidden states", unit="doc", disable=not todo)
        for first in range(0, len(todo), SAVE_EVERY):
            for batch in self._batches(todo[first : first + SAVE_EVERY]):
                self._forward(batch)
                bar.update(len(batch))
            self._states.flush()
            partial = self._done_path.with_suffix(".partial.npy")
            np.save(partial, self.done)
            partial.replace(self._done_path)
        bar.close()

    def _forward(self, batch: list[int]) -> None:
        rows = [torch.from_numpy(self.corpus.document(d)) for d in batch]
        # Padding on the right needs no mask: no real position looks to its right.
        inputs = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self.trunk.device)
        hidden = self.trunk.model.get_decoder()(input_ids=inputs, use_cache=False).last_hidden_state
        for row, document in enumerate(batch):
            self.of(document)[:] = hidden[row, : len(rows[row])].to("cpu", torch.float16).numpy()
            self.done[document] = True

    def _batches(self, documents: list[int]) -> Iterator[list[int]]:
        """Documents of similar length together, each batch at most BATCH_TOKENS with its padding."""
        batch: list[int] = []
        for document in sorted(documents, key=lambda d: len(self.corpus.document(d))):
            if batch and (len(batch) + 1) * len(self.corpus.document(document)) > BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(document)
        if batch:
            yield batch
