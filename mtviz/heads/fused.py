"""The `mtp` module's draft steps through the trunk's lean pass: fused weights, a cache that crops by length."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor
from transformers.modeling_layers import MtpLayer

from mtviz.trunk import Trunk
from mtviz.trunk.lean import Joined, LeanCache


class FusedMtp:
    """Copies of an `MtpLayer`'s weights as they are now. Needs a trunk whose `lean` pass runs in float32."""

    def __init__(self, trunk: Trunk, layer: MtpLayer, unembedding: Tensor) -> None:
        self._lean = trunk.lean
        embedding_norm, hidden_norm, norm = (norm.weight.detach().clone() for norm in (layer.enorm, layer.hnorm, layer.post_norm))
        join = self._lean.linear(layer.eh_proj.weight.detach())
        self._joined = Joined(embedding_norm, hidden_norm, join, self._lean.fuse([layer.mtp_block]), norm)
        self.unembed = self._lean.linear(unembedding)

    def new_cache(self) -> LeanCache:
        return self._lean.new_cache(layers=1)

    def extend(self, hidden: Tensor, ids: Sequence[int], cache: LeanCache) -> Tensor:
        """Predicted hidden states (n, hidden_size) from the previous ones, of that shape, and the tokens that follow them."""
        return self._lean.run_joined(self._joined, self._lean.embed(ids), hidden, cache)
