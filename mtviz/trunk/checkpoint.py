"""A model directory, looked at before and after it is loaded: what cannot be used is refused by name, with the next step."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase, Qwen2Config
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .model import TrunkError

# MiMo-7B comes with its own program code, but its trunk is Qwen2: the code adds only the MTP layers, which `mtviz.heads` reads.
_SAME_TRUNK = {"mimo": Qwen2Config}


def load_directory(path: Path, name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model (bfloat16) and tokenizer in `path`, called `name` in messages.

    Raises TrunkError for a directory without a configuration, program code of its own unless MTVIZ_TRUST_REMOTE_CODE is 1,
    quantised weights, tensors that are missing, misshapen or unreadable, and a tokenizer that is missing or has no fast form.
    """
    described = _described(path)
    trusted = os.environ.get("MTVIZ_TRUST_REMOTE_CODE") == "1"
    kind = described.get("model_type")
    options: dict[str, Any] = {"trust_remote_code": trusted, "local_files_only": True}
    if kind in _SAME_TRUNK:
        own = {field: value for field, value in described.items() if field not in ("model_type", "auto_map")}
        options["config"] = _SAME_TRUNK[kind].from_dict(own)
    elif "auto_map" in described and kind not in CONFIG_MAPPING and not trusted:
        raise TrunkError(
            f"{name} comes with program code of its own ({kind}), which is not run unless MTVIZ_TRUST_REMOTE_CODE=1 is set: read it first"
        )
    if quantised := described.get("quantization_config"):
        raise TrunkError(
            f"the weights of {name} are quantised ({quantised.get('quant_method', 'unknown method')}), which cannot be read here; "
            "take the original bfloat16 weights, or a GGUF file"
        )
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.bfloat16, output_loading_info=True, ignore_mismatched_sizes=True, **options
        )
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise TrunkError(f"{name} cannot be loaded: {str(error).strip() or type(error).__name__}"[:600]) from error
    if misshapen := sorted(str(key[0]) for key in info["mismatched_keys"]):
        raise TrunkError(f"{name}: {misshapen[0]} has another shape than its configuration says")
    if missing := sorted(info["missing_keys"]):
        raise TrunkError(f"{name} lacks {len(missing)} tensors, such as {missing[0]}: download it again, or check its configuration")
    if not tokenizer.is_fast:
        raise TrunkError(f"the tokenizer of {name} has no fast form (tokenizer.json): save it again with `use_fast=True`")
    return model, tokenizer


def _described(path: Path) -> dict[str, Any]:
    try:
        return json.loads((path / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrunkError(f"{path} is no model directory: it has no config.json") from None
    except ValueError as error:
        raise TrunkError(f"{path / 'config.json'} is damaged: {error}") from error


def stored_tensors(path: Path) -> dict[str, Path]:
    """The file that holds each tensor of a model directory, by the tensor's name. Raises SafetensorError for a damaged file."""
    index = path / "model.safetensors.index.json"
    if index.is_file():
        return {name: path / file for name, file in json.loads(index.read_text(encoding="utf-8"))["weight_map"].items()}
    found: dict[str, Path] = {}
    for file in sorted(path.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            found |= dict.fromkeys(opened.keys(), file)
    return found


def read_tensors(path: Path, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Names and values of the tensors of a model directory whose names start with `prefix`."""
    wanted = {name: file for name, file in stored_tensors(path).items() if name.startswith(prefix)}
    for file in sorted(set(wanted.values())):
        with safe_open(file, framework="pt") as opened:
            for name in sorted(name for name, where in wanted.items() if where == file):
                yield name, opened.get_tensor(name)


def cast(module: nn.Module, dtype: torch.dtype, device: str | torch.device) -> nn.Module:
    """`module` in `dtype`, but for the frequencies of rotary embeddings: transformers loads them in float32 at any dtype, and rounded
    to bfloat16 they would turn by other angles, the more so the longer the text."""
    frequencies = [(name, buffer.float()) for name, buffer in module.named_buffers() if name.endswith("inv_freq")]
    module.to(device, dtype)
    for name, exact in frequencies:
        owner, _, last = name.rpartition(".")
        setattr(module.get_submodule(owner), last, exact.to(device))
    return module
