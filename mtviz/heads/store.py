"""Heads on disk: one safetensors file in bfloat16, and every way of not fitting named.

The header's metadata: format, family, trunk (name), width, vocab_size, trunk_fingerprint, tokenizer_hash. The tensors are
the module's own and `draft_ids`. The trunk's embedding and unembedding are never stored.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mtviz.trunk import Trunk

from .base import Heads, HeadsError
from .hierarchical import HierarchicalHeads
from .mtp import MtpHeads
from .parallel import ParallelHeads

FORMAT = "mtviz-heads-1"
FAMILIES: dict[str, type[Heads]] = {kind.family: kind for kind in (ParallelHeads, HierarchicalHeads, MtpHeads)}


def save_heads(heads: Heads, path: str | os.PathLike[str]) -> None:
    """Write heads to `path`, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: tensor.to("cpu", torch.int32 if name == "draft_ids" else torch.bfloat16).contiguous()
        for name, tensor in heads.state_dict().items()
    }
    trunk = heads.trunk
    described = {
        "format": FORMAT,
        "family": heads.family,
        "trunk": trunk.name,
        "width": str(trunk.hidden_size),
        "vocab_size": str(trunk.vocab_size),
        "trunk_fingerprint": heads.trunk_fingerprint,
        "tokenizer_hash": heads.tokenizer_hash,
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(tensors, partial, metadata=described)
        partial.chmod(0o644)  # safetensors writes for the owner alone
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_heads(path: str | os.PathLike[str], trunk: Trunk) -> Heads:
    """Heads from `path` on `trunk`, in float32 on the trunk's device.

    Raises HeadsError, naming what is wrong, for a missing, truncated or foreign file, another width, vocabulary or
    tokenizer, a missing, extra or misshapen tensor, and weights that are NaN or infinite. Heads trained on other weights of
    the same architecture are loaded: drafts are judged by the trunk in any case. Their `note` says so.
    """
    described, tensors = read_tensors(Path(path))
    if described.get("format") != FORMAT or described.get("family") not in FAMILIES:
        raise HeadsError(f"{path} is not a heads file of format {FORMAT} with a known family: {described}")
    for key, ours in (("width", trunk.hidden_size), ("vocab_size", trunk.vocab_size), ("tokenizer_hash", trunk.tokenizer_hash)):
        if described.get(key) != str(ours):
            raise HeadsError(f"{path} is for another trunk: its {key} is {described.get(key)}, this trunk's {ours}")
    if "draft_ids" not in tensors:
        raise HeadsError(f"{path} lacks the tensor draft_ids")
    heads = FAMILIES[described["family"]](trunk, tensors["draft_ids"])
    check_tensors(path, tensors, heads.state_dict())
    heads.load_state_dict(tensors)
    heads.fingerprint = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    heads.trunk_fingerprint = described.get("trunk_fingerprint", "")
    if heads.trunk_fingerprint != trunk.fingerprint:
        heads.note = "These heads were trained on other weights of this architecture: still lossless, but they may guess less well."
    heads.eval().requires_grad_(False).fuse()
    return heads


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}
    except FileNotFoundError as error:
        raise HeadsError(f"there is no heads file {path}") from error
    except (SafetensorError, OSError) as error:
        raise HeadsError(f"{path} is truncated or no safetensors file: {error}") from error


def check_tensors(path: str | os.PathLike[str], found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    if missing := sorted(wanted.keys() - found.keys()):
        raise HeadsError(f"{path} lacks the tensor {', '.join(missing)}")
    if extra := sorted(found.keys() - wanted.keys()):
        raise HeadsError(f"{path} has a tensor that its family does not know: {', '.join(extra)}")
    for name, tensor in found.items():
        if tensor.shape != wanted[name].shape:
            raise HeadsError(f"{path}: {name} has shape {tuple(tensor.shape)}, not {tuple(wanted[name].shape)}")
        if not torch.isfinite(tensor).all():
            raise HeadsError(f"{path}: {name} holds NaN or infinite weights")
