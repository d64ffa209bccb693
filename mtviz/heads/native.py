"""MTP layers that a model's own checkpoint brings: DeepSeek-V3, GLM-4.5, Qwen3-Next, Qwen3.5, MiMo, and what mtviz exports.

DeepSeek-V3 (2024), section 2.2. Layer k reads, at slot s, the output of layer k - 1 at s (of the trunk for k = 0) and the
token at s + 1 + k, and predicts the one after it. transformers has the layers (`MtpModel`) and makes one draft a layer.
Here drafting goes on beyond that: the last layer is applied to its own output, as serving engines do.
"""

from __future__ import annotations

import copy
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Literal, Sequence

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import MtpCache
from transformers.initialization import no_init_weights
from transformers.modeling_layers import MtpModel

from mtviz.trunk import Trunk
from mtviz.trunk.checkpoint import cast, read_tensors, stored_tensors
from mtviz.trunk.model import fingerprint

from .base import Heads, HeadsError
from .blocks import FinalNorm

HiddenState = Literal["post_norm", "pre_norm"]

# Which of the trunk's states the layers read: the one after its final norm, or the one before. Nothing in a checkpoint says
# so, and with either the drafts are fluent. Evidence for "post_norm", in every layout known here: transformers 5.24 hands
# over `hidden_states[-1]`, which is normed; vLLM's draft models get the target's output, after its norm (qwen3_next_mtp,
# mimo_mtp, deepseek_mtp). For DeepSeek the modeling code that comes with R1-0528-MTP does so too, and later steps gain by it
# (ROCm/ATOM#1764: 2.84 to 2.94 tokens a pass; GLM: vllm#47448). For Qwen3.5 and 3.6 more drafts are accepted with it
# (ggml-org/llama.cpp#24025; kekzl/imp#1800: 71 to 76 %). Against: that llama.cpp thread hands DeepSeek and GLM the state
# before the norm, without figures.
HIDDEN: HiddenState = "post_norm"

_MIMO = {
    "token_layernorm": "enorm", "hidden_layernorm": "hnorm", "input_proj": "eh_proj", "final_layernorm": "post_norm",
}  # fmt: skip


@dataclass
class NativeState:
    """The layers' own keys and values, and what drafting goes on from.

    `tokens[s]` is the true token after slot s. Layer k has read the slots whose token s + 1 + k is true, `last[k]` (1 or 0,
    hidden_size) is its output at the newest of them. `below` is what the next layer reads, `drafts` the tokens drafted so far.
    """

    cache: MtpCache
    last: list[Tensor]
    tokens: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    below: Tensor | None = None


class NativeMtpHeads(Heads):
    """A checkpoint's MTP layers, drafting from the trunk's whole vocabulary, with weights in the trunk's dtype.

    `hidden` says which of the trunk's states they read, see `HIDDEN`. "pre_norm" is got back by taking the final norm's
    weights out again; its length is lost, which the norm that comes first takes away in any case.
    """

    family = "mtp"
    max_draft_tokens = 8

    def __init__(self, trunk: Trunk, layers: MtpModel, hidden: HiddenState = HIDDEN) -> None:
        super().__init__(trunk, torch.arange(trunk.vocab_size))
        self.depth: int = layers.num_mtp_layers
        self.hidden = hidden
        self.fingerprint = fingerprint(layers.layers)
        self._config = layers.config
        self._run_layer = layers.forward_layer  # a bound method: the trunk's embedding is no parameter of these heads
        self._final_norm = FinalNorm(trunk) if hidden == "pre_norm" else None

    def rows(self, draft_ids: Tensor) -> None:
        """None of its own: the trunk's unembedding serves."""

    def unembed(self, hidden: Tensor) -> Tensor:
        return self.trunk.unembed(hidden)

    def unroll(self, tokens: Tensor, hidden: Tensor, depth: int) -> list[Tensor]:
        raise HeadsError("the MTP layers of a checkpoint come trained, and are not trained further here")

    def start(self) -> NativeState:
        cache = MtpCache(config=self._config)
        cache.activate_past_recording()
        return NativeState(cache, [self.trunk.embed(torch.zeros(0, dtype=torch.long))] * self.depth)

    @torch.inference_mode()
    def observe(self, state: NativeState, hidden: Tensor, next_ids: Sequence[int]) -> None:
        """See `Heads.observe`. Layer k reads a slot once the token that it needs there is true."""
        self.check_pairs(hidden, next_ids)
        self._forget_drafts(state)
        before = len(state.tokens)
        state.tokens += next_ids
        below = hidden if self._final_norm is None else self._final_norm.undo(hidden).to(hidden.dtype)
        for k in range(self.depth):
            first, last = max(0, before - k), max(0, len(state.tokens) - k)
            if last == first:
                break
            known = torch.cat([state.last[k], self._run(state, k, below, state.tokens[first + k :], first)])
            state.last[k], below = known[-1:], known[:-1]

    @torch.inference_mode()
    def step(self, state: NativeState, i: int, token: int | None) -> Tensor:
        if not state.tokens:
            raise HeadsError("nothing was observed yet, so there is nothing to draft from")
        if i == 0:
            self._forget_drafts(state)
            state.below = state.last[0]
            return self.unembed(state.below)[0]
        state.drafts.append(token)
        slots = len(state.tokens)
        if i < self.depth:  # the newest slots once more, one layer up, each with the token that was drafted for it
            first = max(0, slots - i)
            out = self._run(state, i, state.below, state.drafts[first + i - slots :], first)
            state.below = torch.cat([state.last[i], out])
        else:  # beyond the last layer: a slot further on
            state.below = self._run(state, self.depth - 1, state.below[-1:], [token], slots + i - self.depth)
        return self.unembed(state.below[-1:])[0]

    def _forget_drafts(self, state: NativeState) -> None:
        state.drafts = []
        for k, layer in enumerate(state.cache.layers):
            if surplus := layer.get_seq_length() - max(0, len(state.tokens) - k):
                layer.crop(-surplus)

    def _run(self, state: NativeState, k: int, hidden: Tensor, ids: Sequence[int], first: int) -> Tensor:
        """Outputs (n, hidden_size) of layer k at slots `first` .. first + n - 1, from the outputs below it and the tokens there."""
        positions = torch.arange(first, first + len(ids), device=hidden.device)[None] + 1 + k
        inputs = torch.tensor([list(ids)], device=hidden.device)
        return self._run_layer(k, hidden[None], positions, state.cache, input_ids=inputs)[0]


def native_heads(trunk: Trunk, hidden: HiddenState = HIDDEN) -> NativeMtpHeads | None:
    """The MTP layers in the trunk's own checkpoint; None where it has none.

    Raises HeadsError, naming what is wrong, for a layout that is not known, tensors that are missing, unknown or misshapen,
    and weights that are NaN or infinite.
    """
    if trunk.directory is None:
        return None
    try:
        layers = _load(trunk.model, trunk.directory, list(stored_tensors(trunk.directory)))
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, AttributeError) as error:
        raise HeadsError(f"the MTP layers of {trunk.name} cannot be read: {str(error)[:400]}") from error
    if layers is None:
        return None
    if not all(torch.isfinite(weight).all() for weight in layers.layers.parameters()):
        raise HeadsError(f"the MTP layers of {trunk.name} hold NaN or infinite weights")
    cast(layers, trunk.model.dtype, trunk.model.device).eval().requires_grad_(False)
    return NativeMtpHeads(trunk, layers, hidden)


def _load(model: PreTrainedModel, path: Path, names: list[str]) -> MtpModel | None:
    if mimo := _indices(names, r"model\.mtp_layers\.(\d+)\."):
        layers = layers_for(model, len(mimo), mtp_hidden_states_first=True)
        stored = {_mimo_name(name): tensor for name, tensor in read_tensors(path, "model.mtp_layers.")}
        layers.layers.load_state_dict(stored)  # raises, naming them, for missing, unknown and misshapen tensors
        return layers
    if "mtp.fc.weight" in names:  # Qwen3-Next and Qwen3.5
        with _described(model, len(_indices(names, r"mtp\.layers\.(\d+)\."))):
            return _read(model)
    if getattr(model.config.get_text_config(), "num_mtp_layers", None):
        return _read(model)
    if strange := [name for name in names if re.search(r"(^|[._])mtp", name)]:
        raise ValueError(f"no layout with a tensor {strange[0]} is known")
    return None


def _read(model: PreTrainedModel) -> MtpModel:
    """By transformers itself, which looks for patterns of the model's class; these know only the layer counts of published models."""
    config = model.config.get_text_config()
    beyond = range(config.num_hidden_layers, config.num_hidden_layers + config.num_mtp_layers)
    model._keys_to_ignore_on_load_unexpected = [*(rf"(^|\.)layers\.{n}\." for n in beyond), r"(^|\.)mtp\."]
    return MtpModel.from_pretrained(model)


def layers_for(model: PreTrainedModel, count: int, **described: Any) -> MtpModel:
    """`count` MTP layers around the model's kind of decoder layer, without values yet; `described` are more fields of their
    configuration."""
    with _described(model, count, **described), no_init_weights():  # else it might give values to the model's embedding too
        return MtpModel(model, count)


@contextmanager
def _described(model: PreTrainedModel, count: int, **fields: Any) -> Iterator[None]:
    """With a configuration that knows of the MTP layers."""
    own = model.config
    model.config = copy.deepcopy(own)
    config = model.config.get_text_config()
    fields["num_mtp_layers"] = count
    if getattr(config, "layer_types", None):
        fields["mtp_layer_types"] = ["full_attention"] * count
    if getattr(config, "mlp_layer_types", None):
        fields["mtp_mlp_layer_types"] = config.mlp_layer_types[-1:] * count
    try:
        for name, value in fields.items():
            setattr(config, name, value)
        yield
    finally:
        model.config = own


def _indices(names: Sequence[str], pattern: str) -> set[str]:
    return {found[1] for name in names if (found := re.match(pattern, name))}


def _mimo_name(name: str) -> str:
    """`model.mtp_layers.0.input_proj.weight` as MtpModel's layers call it: `0.eh_proj.weight`."""
    index, module, rest = name.removeprefix("model.mtp_layers.").split(".", 2)
    return f"{index}.{_MIMO[module]}.{rest}" if module in _MIMO else f"{index}.mtp_block.{module}.{rest}"
