"""What every family of heads has in common: a trimmed draft vocabulary and one way to be asked for drafts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Sequence

import torch
from torch import Tensor, nn

from mtviz.trunk import Trunk


class HeadsError(ValueError):
    """Heads that do not fit this trunk, or a heads file that is not whole."""


class Heads(nn.Module, ABC):
    """Draft heads on a trunk's final hidden state.

    Drafts are scored over `draft_ids`, the sorted trunk ids (Vd,) that may be drafted; their unembedding rows are the
    trunk's own. Weights are held in float32, since one small module is fastest so on most machines.
    `fingerprint` is the SHA-256 of the file that they came from, "" for heads that came from none. `trunk_fingerprint` names
    the weights trained on; `note` says so where those are not the weights at hand.
    """

    family: ClassVar[str]
    max_draft_tokens: int

    def __init__(self, trunk: Trunk, draft_ids: Tensor) -> None:
        super().__init__()
        self.trunk = trunk  # not a module, so its weights are no parameters of these heads
        self.fingerprint = ""
        self.trunk_fingerprint = trunk.fingerprint
        self.tokenizer_hash = trunk.tokenizer_hash
        self.note: str | None = None
        draft_ids = draft_ids.to(trunk.device, torch.long)
        if not len(draft_ids) or draft_ids[0] < 0 or draft_ids[-1] >= trunk.vocab_size or (draft_ids.diff() <= 0).any():
            raise HeadsError(f"draft_ids must be sorted, distinct ids below {trunk.vocab_size}")
        self.register_buffer("draft_ids", draft_ids)
        self.register_buffer("_unembedding", self.rows(draft_ids), persistent=False)

    def rows(self, draft_ids: Tensor) -> Tensor | None:
        """Rows of the unembedding (Vd, hidden_size), float32, that score the drafts."""
        return self.trunk.unembedding_rows(draft_ids)

    def unembed(self, hidden: Tensor) -> Tensor:
        """Draft logits (..., Vd) of predicted final hidden states (..., hidden_size), float32."""
        return self.trunk.finish_logits(nn.functional.linear(hidden, self._unembedding), self.draft_ids)

    def embed(self, ids: Tensor) -> Tensor:
        """The trunk's input embeddings in float32, ids.shape + (hidden_size,)."""
        return self.trunk.embed(ids).float()

    def fuse(self) -> None:
        """Make ready to draft faster, where the trunk's pass is packed. The weights must not change afterwards."""
        lean = self.trunk.lean
        if lean is not None and lean.packed:
            for layer in self.modules():
                if isinstance(layer, nn.Linear):
                    layer.forward = lean.linear(layer.weight.detach())
            self.unembed = lean.linear(self._unembedding)

    @abstractmethod
    def unroll(self, tokens: Tensor, hidden: Tensor, depth: int) -> list[Tensor]:
        """What training scores: final hidden states predicted by drafts 0 .. `depth` - 1, each (batch, n - 1, hidden_size).

        `tokens` (batch, n) and `hidden` (batch, n, hidden_size) are right-padded documents. Slot s of every output
        predicts the trunk's hidden state at s + 1, hence token s + 2. Draft k was made k positions before, from the
        hidden state at s - k, with the true tokens s - k + 1 .. s + 1 as what was read or drafted since. Slots s < k have
        no such past and mean nothing.
        """

    @staticmethod
    def check_pairs(hidden: Tensor, next_ids: Sequence[int]) -> None:
        """Raise HeadsError unless there is one token for each of the hidden states (n, hidden_size)."""
        if len(hidden) != len(next_ids):
            raise HeadsError(f"{len(hidden)} hidden states cannot be paired with {len(next_ids)} tokens")

    @abstractmethod
    def start(self) -> Any:
        """A fresh state for one sequence."""

    @abstractmethod
    def observe(self, state: Any, hidden: Tensor, next_ids: Sequence[int]) -> None:
        """Take in the next n true pairs: `hidden` (n, hidden_size) at a position and the token that followed it."""

    @abstractmethod
    def step(self, state: Any, i: int, token: int | None) -> Tensor:
        """Float32 logits (Vd,) of draft `i`, counted from 0; `token` is draft i - 1, None for the first one."""
