"""A jointly trained byte-level model on disk: trunk and heads in one safetensors file in bfloat16.

The header's metadata: format, kind (the family of heads), heads, width, layers, context, after_prompt (what a prompt ends
with, see `byte_tokenizer`), name.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path

import torch
from safetensors.torch import save_file

from mtviz.trunk import Trunk
from mtviz.trunk.bytes import byte_llama, byte_tokenizer

from .base import HeadsError
from .joint import KINDS, MultiTokenPrediction
from .store import check_tensors, read_tensors

FORMAT = "mtviz-bytes-1"
_TIED = "model.lm_head.weight"  # the same tensor as the embedding
LONGEST_WORDS = 60
LARGEST = {"heads": 8, "width": 512, "layers": 12, "context": 4096}


def save_joint(model: MultiTokenPrediction, path: str | os.PathLike[str], name: str, after_prompt: str = "") -> None:
    """Write to `path`, whole or not at all."""
    path = Path(path)
    config = model.model.config
    described = {
        "format": FORMAT, "kind": model.family, "heads": str(model.heads), "width": str(config.hidden_size),
        "layers": str(config.num_hidden_layers), "context": str(config.max_position_embeddings), "after_prompt": after_prompt, "name": name,
    }  # fmt: skip
    tensors = {key: tensor.to("cpu", torch.bfloat16).contiguous() for key, tensor in model.state_dict().items() if key != _TIED}
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(tensors, partial, metadata=described)
        partial.chmod(0o644)  # safetensors writes for the owner alone
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_joint(path: str | os.PathLike[str]) -> tuple[MultiTokenPrediction, dict[str, str]]:
    """The model in `path`, float32 on the CPU, and the file's metadata.

    Raises HeadsError, naming what is wrong, for a missing, truncated or foreign file, sizes out of bounds, a missing, extra
    or misshapen tensor, and weights that are NaN or infinite.
    """
    described, tensors = read_tensors(Path(path))
    if described.get("format") != FORMAT or described.get("kind") not in KINDS:
        raise HeadsError(f"{path} is not a byte-level model of format {FORMAT}")
    sizes = {}
    for key, largest in LARGEST.items():
        given = described.get(key, "")
        if not given.isascii() or not given.isdigit() or not 1 <= int(given[:9]) <= largest:
            raise HeadsError(f"{path}: {key} must be a whole number from 1 to {largest}; got {given!r:.40}")
        sizes[key] = int(given)
    for key in ("name", "after_prompt"):
        if len(described.get(key, "")) > LONGEST_WORDS:
            raise HeadsError(f"{path}: {key} has more than {LONGEST_WORDS} characters")
    if sizes["width"] % 32:
        raise HeadsError(f"{path}: width must be a multiple of 32; got {sizes['width']}")
    model = KINDS[described["kind"]](byte_llama(sizes["width"], sizes["layers"], sizes["context"]), sizes["heads"])
    wanted = {key: tensor for key, tensor in model.state_dict().items() if key != _TIED}
    check_tensors(path, tensors, wanted)
    model.load_state_dict(tensors, strict=False)
    return model.eval(), described


def decodable(model: MultiTokenPrediction, name: str, after_prompt: str = "") -> tuple[Trunk, MultiTokenPrediction]:
    """A frozen copy of the model, and the trunk in it; the original may go on training."""
    model = copy.deepcopy(model).eval().requires_grad_(False)
    return Trunk(model.model, byte_tokenizer(after_prompt), name), model
