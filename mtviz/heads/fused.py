"""The `mtp` module's draft steps through the trunk's lean pass: fused weights, a cache that crops by length."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor
from transformers.modeling_layers import MtpLayer

from mtviz.trunk import Trunk
from mtviz.trunk.lean import LeanCache


class FusedMtp:
    """Copies of an `MtpLayer`'s weights as they are now. Needs a trunk whose `lean` pass runs in float32."""

    def __init__(self, trunk: Trunk, layer: MtpLayer, unembedding: Tensor) -> None:
        self._trunk, self._lean = trunk, trunk.lean
        self._embedding_norm, self._hidden_norm = layer.enorm.weight.detach(), layer.hnorm.weight.detach()
        self._join = self._lean.linear(layer.eh_proj.weight.detach())
        self._block = self._lean.fuse([layer.mtp_block])
        self._norm = layer.post_norm.weight.detach()
        self.unembed = self._lean.linear(unembedding)

    def new_cache(self) -> LeanCache:
        return self._lean.new_cache(layers=1)

    def extend(self, hidden: Tensor, ids: Sequence[int], cache: LeanCache) -> Tensor:
        """Predicted hidden states (n, hidden_size) from the previous ones, of that shape, and the tokens that follow them."""
        embeds = self._trunk.embed(torch.tensor(list(ids))).float()
        joined = self._join(torch.cat([self._lean.norm(embeds, self._embedding_norm), self._lean.norm(hidden, self._hidden_norm)], dim=-1))
        return self._lean.norm(self._lean.run(self._block, joined, cache), self._norm)
