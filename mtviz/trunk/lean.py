"""A lean forward pass for Llama-type trunks: the same numbers as transformers' forward, in less time.

What it does differently: query, key and value are one product, and so are gate and up; keys and values live in one
preallocated tensor, so that `crop` only sets a length; heads that share a key are folded into the query's rows, so that
no key is copied. Where the processor has FBGEMM (x86), weights lie packed as float16 in bfloat16 mode and
activations are float32. That is as little to read, several times faster than bfloat16 products where the processor has
none of its own, and more exact: float16 holds a bfloat16 weight exactly down to 2^-17, and to within 2^-25 below.
Elsewhere, and in float32 mode, weights and activations have the model's dtype.

Architecture: Llama (Touvron et al. 2023), with grouped-query attention (Ainslie et al. 2023).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Callable, Iterable, NamedTuple, Sequence

import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaForCausalLM, PreTrainedModel

CHUNK = 256  # the positions that a cache starts with; it doubles when full
_LARGEST_FLOAT16 = 65504.0
Linear = Callable[[Tensor], Tensor]


class LeanCache:
    """Keys and values of every position that the trunk has read, in one tensor (layers, key and value heads, capacity, head
    size). `length` counts the positions held."""

    def __init__(self, layers: int, heads: int, head_size: int, dtype: torch.dtype, device: torch.device) -> None:
        self.length = 0
        self.states = torch.empty(layers, heads, CHUNK, head_size, dtype=dtype, device=device)

    def crop(self, length: int) -> None:
        """Forget every position from `length` on. Raises ValueError where fewer than `length` are held."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot crop a cache of {self.length} positions to {length}")
        self.length = length

    def reserve(self, length: int) -> None:
        """Make room for `length` positions in all."""
        capacity = self.states.shape[2]
        if length <= capacity:
            return
        while capacity < length:
            capacity *= 2
        layers, heads, _, size = self.states.shape
        grown = self.states.new_empty(layers, heads, capacity, size)
        grown[:, :, : self.length] = self.states[:, :, : self.length]
        self.states = grown


class Layer(NamedTuple):
    """One decoder layer, fused."""

    attention_norm: Tensor
    qkv: Linear
    out: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


class Joined(NamedTuple):
    """A decoder layer behind the join of two vectors a position, and a norm after it: DeepSeek-V3's MTP module, fused."""

    embedding_norm: Tensor
    hidden_norm: Tensor
    join: Linear
    layers: Sequence[Layer]
    norm: Tensor


def qualifies(model: PreTrainedModel) -> bool:
    """Whether `LeanLlama` computes exactly what `model` does."""
    config = model.config
    return (
        type(model) is LlamaForCausalLM
        and config.hidden_act == "silu"
        and not config.attention_bias
        and not config.mlp_bias
        and config.rope_parameters["rope_type"] == "default"
        and config.num_attention_heads % config.num_key_value_heads == 0
        and config.pretraining_tp == 1
        and model.dtype in (torch.bfloat16, torch.float32)
        and not getattr(model, "is_quantized", False)
        and len({parameter.device for parameter in model.parameters()}) == 1
    )


class LeanLlama:
    """The forward pass of a `LlamaForCausalLM` that `qualifies`, for one sequence, with logits of the first `vocab_size` ids.

    Weights are fused copies of the model's. `packed` says whether they are float16 behind float32 activations.
    """

    def __init__(self, model: LlamaForCausalLM, vocab_size: int) -> None:
        config = model.config
        self.queries, self.keys = config.num_attention_heads, config.num_key_value_heads
        self.head_size = config.head_dim
        self._depth = config.num_hidden_layers
        self.device = model.device
        self.packed = self._can_pack(model)
        self.dtype = torch.float32 if self.packed else model.dtype
        self._embedding = model.get_input_embeddings().weight
        self._norm = model.model.norm.weight.to(self.dtype)
        self._eps = torch.full((1, 1), config.rms_norm_eps, dtype=torch.float32, device=self.device)
        self._frequencies = model.model.rotary_emb.inv_freq.float()
        self._turned = torch.empty(0, dtype=torch.complex64, device=self.device)
        # Logits are always float32, whatever the weights are held in.
        unembedding = model.get_output_embeddings().weight[:vocab_size]
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # packing is most of the time that loading takes
            product = pool.submit(self.linear, unembedding if self.packed else unembedding.float())
            self._layers = self.fuse(model.model.layers, pool.map)
            self.unembed: Linear = product.result()

    def new_cache(self, layers: int | None = None) -> LeanCache:
        """An empty cache for `layers` layers, the trunk's own number of them by default."""
        return LeanCache(layers or self._depth, 2 * self.keys, self.head_size, self.dtype, self.device)

    def forward(self, ids: Sequence[int], cache: LeanCache) -> Tensor:
        """Read `ids` after what `cache` holds: hidden states (n, hidden_size) after the final norm."""
        return self.norm(self.run(self._layers, self.embed(ids), cache), self._norm)

    def embed(self, ids: Sequence[int]) -> Tensor:
        """What the first layer reads, (n, hidden_size)."""
        return self._embedding[torch.tensor(ids, device=self.device)].to(self.dtype)

    def run(self, layers: Sequence[Layer], hidden: Tensor, cache: LeanCache) -> Tensor:
        """Pass `hidden` (n, hidden_size), at the positions after what `cache` holds, through `fuse`d layers; the shape stays."""
        past, n = cache.length, len(hidden)
        cache.reserve(past + n)
        rotation = self._rotation(past, n)
        mask = self._mask(past, n)
        for layer, states in zip(layers, cache.states):
            attended = self._attend(layer.qkv(self.norm(hidden, layer.attention_norm)), states, past, rotation, mask)
            hidden = hidden + layer.out(attended)
            gate, up = layer.gate_up(self.norm(hidden, layer.mlp_norm)).chunk(2, dim=-1)
            hidden = hidden + layer.down(functional.silu(gate) * up)
        cache.length = past + n
        return hidden

    def run_joined(self, joined: Joined, embeds: Tensor, hidden: Tensor, cache: LeanCache) -> Tensor:
        """Join `embeds` and `hidden` (n, hidden_size) and pass the result through `joined`; the shape stays."""
        pair = torch.cat([self.norm(embeds, joined.embedding_norm), self.norm(hidden, joined.hidden_norm)], dim=-1)
        return self.norm(self.run(joined.layers, joined.join(pair), cache), joined.norm)

    def _attend(self, qkv: Tensor, states: Tensor, past: int, rotation: Tensor, mask: Tensor | None) -> Tensor:
        """Rotate, keep keys and values in `states` (key and value heads, capacity, head size), attend: (n, width)."""
        n, heads, size = len(qkv), self.queries + 2 * self.keys, self.head_size
        pairs = torch.view_as_complex(qkv.float().view(n, heads, size // 2, 2)) * rotation
        turned = torch.view_as_real(pairs).flatten(2).to(self.dtype)
        states[:, past : past + n] = turned[:, self.queries :].transpose(0, 1)
        # Queries that share a key are rows of one product: (1, keys, n * group, size).
        grouped = turned[:, : self.queries].reshape(n, self.keys, -1, size).transpose(0, 1).reshape(1, self.keys, -1, size)
        seen = states[None, :, : past + n]
        attended = functional.scaled_dot_product_attention(grouped, seen[:, : self.keys], seen[:, self.keys :], mask)
        return attended.view(self.keys, n, -1).transpose(0, 1).reshape(n, -1)

    def _rotation(self, past: int, n: int) -> Tensor:
        """Complex rotations (n, heads, head size / 2) by position; 1 for the values, so that one product serves all heads."""
        turn = self._turns(past + n)[past : past + n, None].expand(n, self.queries + self.keys, -1)
        return torch.cat([turn, torch.ones_like(turn[:, : self.keys])], dim=1)

    def _turns(self, length: int) -> Tensor:
        """Complex rotations (at least `length`, head size / 2) of the pairs of a head by position, computed once for many passes."""
        turned = self._turned  # another thread may be growing it
        if len(turned) < length:
            angles = torch.arange(max(length, 2 * len(turned)), device=self.device)[:, None] * self._frequencies
            self._turned = turned = torch.polar(torch.ones_like(angles), angles)
        return turned

    def _mask(self, past: int, n: int) -> Tensor | None:
        """(n * group, past + n): -inf where a query row may not look, to be added; None where every row sees all keys."""
        if n == 1:
            return None
        unseen = torch.full((n, past + n), -torch.inf, dtype=self.dtype, device=self.device).triu(past + 1)
        return unseen.repeat_interleave(self.queries // self.keys, dim=0)

    def norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """RMSNorm (Zhang and Sennrich 2019), in fewer and cheaper steps than `functional.rms_norm` takes on a CPU."""
        length = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True, dtype=torch.float32)
        scale = torch.addcmul(self._eps, length, length, value=1 / hidden.shape[-1]).rsqrt_()
        return (hidden * scale).to(self.dtype) * weight

    def fuse(self, layers: Iterable[torch.nn.Module], each: Callable[..., Iterable[Layer]] = map) -> Sequence[Layer]:
        """Fused copies of transformers' Llama layers, for `run`. `each` maps a function over them, perhaps in threads."""
        return list(each(self._fuse, layers))

    def _fuse(self, layer: torch.nn.Module) -> Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return Layer(
            layer.input_layernorm.weight.to(self.dtype),
            self.linear(self._qkv(attention)),
            self.linear(attention.o_proj.weight),
            layer.post_attention_layernorm.weight.to(self.dtype),
            self.linear(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])),
            self.linear(mlp.down_proj.weight),
        )

    def _qkv(self, attention: torch.nn.Module) -> Tensor:
        """Query, key and value as one weight (heads * head size, hidden_size), rotated pairs side by side."""
        return torch.cat([self._paired(attention.q_proj.weight), self._paired(attention.k_proj.weight), attention.v_proj.weight])

    def _paired(self, weight: Tensor) -> Tensor:
        """Rows reordered so that the two halves of each rotated pair are neighbours, as complex numbers are stored.

        transformers keeps them half a head apart. Queries and keys change alike, so their products stay the same.
        """
        return weight.view(-1, 2, self.head_size // 2, weight.shape[-1]).transpose(1, 2).reshape(weight.shape)

    def linear(self, weight: Tensor) -> Linear:
        """The product with `weight` (out, in), from a copy of it that is packed if this pass is."""
        if not self.packed:
            return partial(functional.linear, weight=weight)
        return partial(
            torch.ops.quantized.linear_dynamic_fp16.default, W_prepack=torch.ops.quantized.linear_prepack_fp16(weight.float(), None)
        )

    def _can_pack(self, model: PreTrainedModel) -> bool:
        """Whether FBGEMM is there, and float16 holds the weights as well as bfloat16 does. float32 is left as it is: packed
        sums are rounded in another order, and float32 is there for comparing with transformers."""
        if model.device.type != "cpu" or model.dtype != torch.bfloat16 or torch.backends.quantized.engine not in ("x86", "fbgemm"):
            return False
        return all(bool(weight.abs().amax() <= _LARGEST_FLOAT16) for weight in model.parameters())
