"""EAGLE-1 and -2 heads (Li et al. 2024, arXiv:2401.15077), as their authors publish them: one Llama layer without the norms around it.

A file holds `fc` (token embedding first, then hidden state), `layers.0.*` without `input_layernorm`, and a copy of the
trunk's embedding. The layer reads the trunk's state after its final norm and predicts the next one of these, which the trunk's
unembedding reads. So it is an MTP layer whose norms are the identity. EAGLE-3 reads three inner layers, which no family here does.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn
from transformers import LlamaForCausalLM
from transformers.modeling_layers import MtpModel

from mtviz.trunk import Trunk
from mtviz.trunk.checkpoint import cast

from .base import HeadsError
from .native import NativeMtpHeads, layers_for
from .store import check_tensors

FILES = ("model.safetensors", "pytorch_model.bin")
_SHARED = ("embed_tokens.weight", "lm_head.weight")


def load_eagle(path: Path, trunk: Trunk) -> NativeMtpHeads:
    """EAGLE heads in the file `path` on a Llama trunk.

    Raises HeadsError, naming what is wrong, for another trunk, an unreadable file, EAGLE-3, missing, unknown and misshapen
    tensors, and weights that are NaN or infinite. A `.bin` file is read as tensors alone; programs in it are not run.
    """
    if not isinstance(trunk.model, LlamaForCausalLM):
        raise HeadsError(f"{path}: EAGLE heads are Llama layers, and {trunk.name} is a {type(trunk.model).__name__}")
    try:
        stored = load_file(path) if path.suffix == ".safetensors" else torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, SafetensorError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise HeadsError(f"{path} is truncated or no EAGLE file: {str(error)[:200]}") from error
    if strange := [name for name in stored if name.startswith(("midlayer.", "d2t", "t2d"))]:
        raise HeadsError(f"{path} is EAGLE-3 ({strange[0]}), which reads three inner layers of the trunk: it cannot be used here")
    tensors = {
        name.replace("fc.", "eh_proj.", 1) if name.startswith("fc.") else name.replace("layers.0.", "mtp_block.", 1): tensor
        for name, tensor in stored.items() if name not in _SHARED
    }  # fmt: skip
    layers = _without_norms(layers_for(trunk.model, 1), bias="eh_proj.bias" in tensors)
    check_tensors(path, tensors, layers.layers[0].state_dict())
    layers.layers[0].load_state_dict(tensors)
    cast(layers, trunk.model.dtype, trunk.model.device).eval().requires_grad_(False)
    return NativeMtpHeads(trunk, layers)


def is_eagle(path: Path) -> bool:
    """Whether a file of this name and these tensors is meant for `load_eagle`."""
    if path.name not in FILES:
        return False
    if path.suffix != ".safetensors":
        return True
    try:
        with safe_open(path, framework="pt") as file:
            return "fc.weight" in file.keys()
    except (OSError, SafetensorError):
        return False


def _without_norms(layers: MtpModel, bias: bool) -> MtpModel:
    layer = layers.layers[0]
    layer.enorm = layer.hnorm = layer.mtp_block.input_layernorm = nn.Identity()
    layer.use_post_norm, layer.post_norm = False, None
    layer.eh_proj = nn.Linear(layer.eh_proj.in_features, layer.eh_proj.out_features, bias=bias)
    return layers
