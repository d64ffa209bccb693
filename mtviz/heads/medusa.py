"""Medusa's heads (Cai et al. 2024, arXiv:2401.10774), as their authors publish them: the `parallel` family with unembeddings of their own.

A directory holds `medusa_lm_head.safetensors` or `.pt`: head i has residual blocks `i.0.linear`, `i.1.linear`, …, x + silu(W x + b),
and a last matrix `i.n.weight` over the trunk's whole vocabulary. Head i is for the token i + 2 places on, as draft i is here, and
reads the state after the final norm.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from pathlib import Path
from typing import Sequence

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from mtviz.trunk import Trunk

from .base import Heads, HeadsError
from .store import check_tensors

FILES = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")


class MedusaHeads(Heads):
    """`count` heads of `blocks` residual blocks each, in float32. Its state is the trunk's hidden state (1, hidden_size)."""

    family = "parallel"

    def __init__(self, trunk: Trunk, count: int, blocks: int) -> None:
        super().__init__(trunk, torch.arange(trunk.vocab_size))
        width = trunk.hidden_size
        self.max_draft_tokens = count
        self.blocks = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(blocks)) for _ in range(count))
        self.unembeddings = nn.ModuleList(nn.Linear(width, trunk.vocab_size, bias=False) for _ in range(count))
        self.to(trunk.device, torch.float32)

    def rows(self, draft_ids: Tensor) -> None:
        """None of the trunk's: every head has its own."""

    def predict(self, hidden: Tensor, i: int) -> Tensor:
        """Head i's logits (..., vocab_size) from hidden states (..., hidden_size)."""
        for block in self.blocks[i]:
            hidden = hidden + functional.silu(block(hidden))
        return self.unembeddings[i](hidden)

    def unroll(self, tokens: Tensor, hidden: Tensor, depth: int) -> list[Tensor]:
        raise HeadsError("Medusa's heads come trained, and are not trained further here")

    def start(self) -> list[Tensor]:
        return []

    @torch.inference_mode()
    def observe(self, state: list[Tensor], hidden: Tensor, next_ids: Sequence[int]) -> None:
        self.check_pairs(hidden, next_ids)
        if len(hidden):
            state[:] = [hidden[-1].float()]

    @torch.inference_mode()
    def step(self, state: list[Tensor], i: int, token: int | None) -> Tensor:
        if not state:
            raise HeadsError("nothing was observed yet, so there is nothing to draft from")
        return self.trunk.mask_missing(self.predict(state[0], i))


def load_medusa(path: Path, trunk: Trunk) -> MedusaHeads:
    """Heads from a Medusa file on `trunk`.

    Raises HeadsError, naming what is wrong, for an unreadable file, missing, unknown and misshapen tensors, and weights that are NaN
    or infinite. A `.pt` file is read as tensors alone; programs in it are not run.
    """
    try:
        stored = load_file(path) if path.suffix == ".safetensors" else torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise HeadsError(f"{path} is truncated or no Medusa file: {str(error)[:200]}") from error
    found = {name: re.fullmatch(r"(\d+)\.(\d+)\.(linear\.weight|linear\.bias|weight)", name) for name in stored}
    if strange := [name for name, match in found.items() if match is None]:
        raise HeadsError(f"{path} has a tensor that Medusa's heads do not know: {strange[0]}")
    count = 1 + max((int(match[1]) for match in found.values()), default=-1)
    blocks = max((int(match[2]) for match in found.values()), default=0)
    if not count:
        raise HeadsError(f"{path} holds no heads")
    tensors = {}
    for name, match in found.items():
        if match[3] == "weight":
            tensors[f"unembeddings.{match[1]}.weight"] = stored[name][: trunk.vocab_size]  # padded as the trunk's own is
        else:
            tensors[f"blocks.{match[1]}.{match[2]}.{match[3].removeprefix('linear.')}"] = stored[name]
    heads = MedusaHeads(trunk, count, blocks)
    check_tensors(path, tensors, {name: tensor for name, tensor in heads.state_dict().items() if name != "draft_ids"})
    heads.load_state_dict(tensors, strict=False)  # all but draft_ids, which are no part of the file
    heads.fingerprint = hashlib.sha256(path.read_bytes()).hexdigest()
    return heads.eval().requires_grad_(False)
