"""The `mtp` family: one transformer block that predicts the trunk's next hidden state, applied to its own output.

DeepSeek-V3 (2024), section 2.2, with one module used recursively as in EAGLE (Li et al. 2024). The block is
transformers' own `MtpLayer`. It reads the trunk's state at position t and the token at t + 1, and its output, read by
the trunk's unembedding, predicts the token at t + 2.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Sequence

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig
from transformers.modeling_layers import MtpLayer

from mtviz.trunk import Trunk
from mtviz.trunk.lean import LeanCache

from .base import Heads, HeadsError
from .blocks import delayed
from .fused import FusedMtp


@dataclass
class MtpState:
    """The block's own keys and values: `length` true positions, then any that drafting has added."""

    cache: DynamicCache | LeanCache = field(default_factory=DynamicCache)
    length: int = 0
    newest: Tensor | None = None  # (1, 1, hidden_size): the output at the last true position
    current: Tensor | None = None  # the same at the last position, drafted ones included


class MtpHeads(Heads):
    """One recursive module. It starts as the identity on the hidden state and trains from the first step.

    Raises HeadsError for a trunk whose layers transformers' `MtpLayer` cannot be built around.
    """

    family = "mtp"
    max_draft_tokens = 8

    def __init__(self, trunk: Trunk, draft_ids: Tensor) -> None:
        super().__init__(trunk, draft_ids)
        decoder = trunk.model.get_decoder()
        try:
            config = mtp_config(trunk)
            config._attn_implementation = "sdpa"
            self.layer = MtpLayer(config, type(decoder.layers[-1]), type(decoder.norm), layer_idx=0)
            self.to(trunk.device, torch.float32)
            self._start_as_identity(trunk.final_norm[0])
            self._try()
        except (AttributeError, TypeError, ValueError) as error:
            kind = type(trunk.model).__name__
            raise HeadsError(f"an mtp module cannot be built around {kind} ({error}); take another family, such as parallel") from error
        self._fused: FusedMtp | None = None

    @torch.no_grad()
    def _try(self) -> None:
        """One pass, so that a layer which wants more than it is given fails here and not in a round."""
        hidden, embeds = torch.zeros(2, 1, 1, self.trunk.hidden_size, device=self.trunk.device)
        self(hidden, embeds, torch.zeros(1, 1, dtype=torch.long, device=self.trunk.device), None, None)

    @torch.no_grad()
    def _start_as_identity(self, final_norm: Tensor) -> None:
        """Make the module return its hidden state, whatever the token; exact also when applied to its own output."""
        for weight in self.layer.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)
        width = self.layer.eh_proj.out_features
        self.layer.eh_proj.weight.copy_(torch.cat([torch.zeros(width, width), torch.eye(width)], dim=1))
        self.layer.mtp_block.self_attn.o_proj.weight.zero_()
        self.layer.mtp_block.mlp.down_proj.weight.zero_()
        offset = final_norm - self.trunk.model.get_decoder().norm.weight.float()  # 1 where weights are stored as offsets from it
        self.layer.hnorm.weight.copy_(1 / final_norm - offset)
        self.layer.post_norm.weight.copy_(final_norm - offset)

    def forward(
        self, hidden: Tensor, embeds: Tensor, positions: Tensor, mask: Tensor | None, cache: DynamicCache | None
    ) -> Tensor:
        """Predicted hidden states (batch, n, hidden_size) from the previous ones and the embeddings of the tokens that
        follow them, both of that shape. `positions` (1, n); `mask` (1, 1, n, keys) is True where a query may look,
        None for plain causal attention without a past."""
        rotary = self.trunk.model.get_decoder().rotary_emb(embeds, position_ids=positions)
        return self.layer(
            inputs_embeds=embeds,
            previous_hidden_state=hidden,
            position_embeddings=rotary,
            attention_mask=mask,
            position_ids=positions,
            cache=cache,
        )

    def unroll(self, tokens: Tensor, hidden: Tensor, depth: int) -> list[Tensor]:
        """See `Heads.unroll`. At application k a slot is given the output of application k - 1 at the slot before instead
        of the trunk's state, as in decoding; it looks at true pairs up to slot s - k and at what the applications since
        have put at the slots between (training-time test, EAGLE-3, Li et al. 2025)."""
        slots = hidden.shape[1] - 1
        positions = torch.arange(slots, device=hidden.device)
        embeds = self.embed(tokens[:, 1:])
        cache = DynamicCache() if depth > 1 else None
        outputs: list[Tensor] = []
        current = hidden[:, :-1]
        for k in range(depth):
            mask = None if k == 0 else _unrolled_mask(positions, k)
            current = self(current, embeds, positions[None], mask, cache)
            outputs.append(current)
            current = delayed(current, 1)
        return outputs

    def fuse(self) -> None:
        if self.trunk.lean is not None and self.trunk.lean.dtype == torch.float32:
            self._fused = FusedMtp(self.trunk, self.layer, self._unembedding)

    def start(self) -> MtpState:
        return MtpState() if self._fused is None else MtpState(self._fused.new_cache())

    @torch.inference_mode()
    def observe(self, state: MtpState, hidden: Tensor, next_ids: Sequence[int]) -> None:
        """See `Heads.observe`. Whatever drafting left in the cache is forgotten first."""
        self.check_pairs(hidden, next_ids)
        self._forget_drafts(state)
        if len(hidden):
            state.newest = self._extend(state, hidden[None].float(), next_ids, state.length)[:, -1:]
            state.length += len(hidden)

    @torch.inference_mode()
    def step(self, state: MtpState, i: int, token: int | None) -> Tensor:
        if state.newest is None:
            raise HeadsError("nothing was observed yet, so there is nothing to draft from")
        if i == 0:
            self._forget_drafts(state)
            state.current = state.newest
        else:
            state.current = self._extend(state, state.current, [token], state.length + i - 1)
        return self.unembed(state.current[0, 0]) if self._fused is None else self._fused.unembed(state.current[0])[0]

    @staticmethod
    def _forget_drafts(state: MtpState) -> None:
        if isinstance(state.cache, LeanCache):
            state.cache.crop(state.length)
        elif surplus := state.cache.get_seq_length() - state.length:
            state.cache.crop(-surplus)

    def _extend(self, state: MtpState, hidden: Tensor, ids: Sequence[int], past: int) -> Tensor:
        """Run the block over positions past .. past + n - 1, keeping their keys and values."""
        if self._fused is not None:
            return self._fused.extend(hidden[0], ids, state.cache)[None]
        positions = torch.arange(past, past + len(ids), device=hidden.device)
        mask = None
        if len(ids) > 1:
            keys = torch.arange(past + len(ids), device=hidden.device)
            mask = (keys <= positions[:, None])[None, None]
        embeds = self.embed(torch.tensor(list(ids), device=hidden.device))[None]
        return self(hidden, embeds, positions[None], mask, state.cache)


def mtp_config(trunk: Trunk) -> PreTrainedConfig:
    """The trunk's configuration for one MTP layer with full attention."""
    config = copy.deepcopy(trunk.model.config.get_text_config())
    config.num_mtp_layers = 1
    if getattr(config, "layer_types", None):
        config.mtp_layer_types = ["full_attention"]
    return config.get_mtp_config()


def _unrolled_mask(positions: Tensor, k: int) -> Tensor:
    """(1, 1, n, (k + 1) n): the keys of applications 0 .. k, of which application j > 0 is seen at one slot only."""
    distance = positions[:, None] - positions
    return torch.cat([distance >= k, *(distance == k - j for j in range(1, k + 1))], dim=1)[None, None]
