"""The `parallel` family: every head reads the trunk's hidden state alone and knows nothing of the other heads' tokens.

Gloeckle et al. 2024 (arXiv:2404.19737), with the heads of Medusa (Cai et al. 2024, arXiv:2401.10774) on a frozen trunk:
head i is one residual block, x + silu(W_i x), under the trunk's own unembedding, and is for the token i + 2 places on.
A gated block that all heads share comes first, since much of what they need is the same. At width 576: 2.0 M parameters
shared and 0.33 M a head, 4.6 M (9.3 MB in bfloat16) for 8 heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from mtviz.trunk import Trunk

from .base import Heads, HeadsError
from .blocks import FinalNorm, GatedBlock, delayed


@dataclass
class ParallelState:
    shared: Tensor | None = None  # (1, hidden_size): what all heads read, at the newest true position


class ParallelHeads(Heads):
    """Independent heads. Each starts as the identity on the hidden state."""

    family = "parallel"
    max_draft_tokens = 8

    def __init__(self, trunk: Trunk, draft_ids: Tensor) -> None:
        super().__init__(trunk, draft_ids)
        width = trunk.hidden_size
        self.norm = FinalNorm(trunk)
        self.shared = GatedBlock(width, 2 * width, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(self.max_draft_tokens))
        for block in self.blocks:
            nn.init.zeros_(block.weight)
        self.to(trunk.device, torch.float32)

    def read(self, hidden: Tensor) -> Tensor:
        """What all heads work on, (..., hidden_size), from hidden states of that shape."""
        x = self.norm.undo(hidden)
        return x + self.shared(x)

    def predict(self, shared: Tensor, i: int) -> Tensor:
        """Head i's final hidden states (..., hidden_size) from `read`'s result."""
        return self.norm(shared + functional.silu(self.blocks[i](shared)))

    def unroll(self, tokens: Tensor, hidden: Tensor, depth: int) -> list[Tensor]:
        shared = self.read(hidden[:, :-1])
        return [delayed(self.predict(shared, i), i) for i in range(depth)]

    def start(self) -> ParallelState:
        return ParallelState()

    @torch.inference_mode()
    def observe(self, state: ParallelState, hidden: Tensor, next_ids: Sequence[int]) -> None:
        self.check_pairs(hidden, next_ids)
        if len(hidden):
            state.shared = self.read(hidden[-1:])

    @torch.inference_mode()
    def step(self, state: ParallelState, i: int, token: int | None) -> Tensor:
        if state.shared is None:
            raise HeadsError("nothing was observed yet, so there is nothing to draft from")
        return self.unembed(self.predict(state.shared, i))[0]
