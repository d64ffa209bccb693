"""`mtp` heads in other people's formats: a model directory that serves elsewhere with what was trained here.

transformers: the trunk with `mtp.layers.0.*` beside it, for `generate(use_mtp=True)`; one draft a pass, since transformers
makes one a layer.
vllm: the same in the layout of MiMo-7B, whose layers are Qwen2's: a Llama layer is one whose query, key and value biases are
zero. vLLM's MiMo draft model applies its layer again and again.
speculators: the layer alone, for the `speculators` library; it knows MTP layers for Qwen3's architecture, and not for Llama's.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM

from mtviz.trunk import TrunkNotFound, load_trunk
from mtviz.trunk.checkpoint import stored_tensors

from .base import HeadsError
from .mtp import MtpHeads
from .store import load_heads

_PROGRAM = '''"""A stock {kind} whose checkpoint holds an MTP layer: transformers' `generate(use_mtp=True)` looks for its pattern."""

from transformers import {kind}


class Mtp{kind}({kind}):
    _keys_to_ignore_on_load_unexpected = [r"^mtp\\."]
'''
_BESIDE_BLOCK = {
    "enorm": "token_layernorm", "hnorm": "hidden_layernorm", "eh_proj": "input_proj", "post_norm": "final_layernorm",
}  # fmt: skip


def export_transformers(heads: MtpHeads, out: Path) -> None:
    """Trunk, tokenizer and heads as a model directory of stock transformers. Load it with `trust_remote_code=True`: its one
    program file holds a subclass of three lines."""
    kind = type(heads.trunk.model).__name__
    heads.trunk.model.save_pretrained(out)
    heads.trunk.tokenizer.save_pretrained(out)
    changes: dict[str, Any] = {
        "num_mtp_layers": 1,
        "architectures": [f"Mtp{kind}"],
        "auto_map": {"AutoModelForCausalLM": f"modeling_mtp.Mtp{kind}"},
    }
    config = heads.trunk.model.config
    if getattr(config, "layer_types", None) or getattr(config, "sliding_window", None):
        # Said for every layer, so that the module's own, which has no window, can be another.
        changes["layer_types"] = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
        changes["mtp_layer_types"] = ["full_attention"]
    _change_config(out, changes)
    (out / "modeling_mtp.py").write_text(_PROGRAM.format(kind=kind), encoding="utf-8")
    _add_tensors(out, {f"mtp.layers.0.{name}": tensor for name, tensor in _layer(heads).items()})


def export_vllm(heads: MtpHeads, out: Path) -> None:
    """Trunk, tokenizer and heads as a checkpoint of vLLM's `MiMoForCausalLM`. Raises HeadsError for a trunk that is no plain Llama
    and no Qwen2."""
    model = heads.trunk.model
    config = model.config
    plain = isinstance(model, LlamaForCausalLM) and not (config.attention_bias or config.mlp_bias)
    if type(model) not in (LlamaForCausalLM, Qwen2ForCausalLM) or not (plain or isinstance(model, Qwen2ForCausalLM)):
        raise HeadsError(f"vLLM's MiMo model is Qwen2, and {type(model).__name__} cannot be written as one; take --format transformers")
    weights = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
    weights["lm_head.weight"] = model.get_output_embeddings().weight.cpu().clone()  # the draft model reads one of its own
    for name, tensor in _layer(heads).items():
        module, _, rest = name.partition(".")
        if module == "eh_proj":
            tensor = torch.cat(tensor.chunk(2, dim=1)[::-1], dim=1).contiguous()  # MiMo puts the hidden state first
        weights["model.mtp_layers.0." + (rest if module == "mtp_block" else f"{_BESIDE_BLOCK[module]}.{rest}")] = tensor
    for name in [name for name in weights if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))]:
        bias = name.removesuffix("weight") + "bias"
        weights.setdefault(bias, weights[name].new_zeros(len(weights[name])))
    out.mkdir(parents=True, exist_ok=True)
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    for part in (config, model.generation_config, heads.trunk.tokenizer):
        part.save_pretrained(out)
    _change_config(out, {
        "architectures": ["MiMoForCausalLM"], "model_type": "qwen2", "num_nextn_predict_layers": 1, "tie_word_embeddings": False,
        "use_sliding_window": False,
    })  # fmt: skip


def export_speculators(heads: MtpHeads, out: Path) -> None:
    """The layer as an `mtp` speculator of the `speculators` library. Raises HeadsError for a trunk that is not Qwen3."""
    model = heads.trunk.model
    if type(model) is not Qwen3ForCausalLM:
        raise HeadsError(
            f"the speculators library has MTP layers for Qwen3's architecture, and none for {type(model).__name__}; "
            "take --format transformers or vllm"
        )
    out.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, tensor in _layer(heads).items():
        module, _, rest = name.partition(".")
        tensors["mtp_layers.0." + (rest if module == "mtp_block" else f"{_BESIDE_BLOCK[module]}.{rest}")] = tensor
    save_file(tensors, out / "model.safetensors", {"format": "pt"})
    proposal = {"proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1, "accept_tolerance": 0.0}
    described = {
        "architectures": ["MTPDraftModel"], "speculators_model_type": "mtp", "num_nextn_predict_layers": 1,
        "dtype": heads.trunk.dtype, "tie_word_embeddings": False, "transformer_layer_config": model.config.to_diff_dict(),
        "speculators_config": {
            "algorithm": "mtp", "default_proposal_method": "greedy", "proposal_methods": [proposal],
            "verifier": {"name_or_path": model.config.name_or_path, "architectures": [type(model).__name__]},
        },
    }  # fmt: skip
    (out / "config.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


FORMATS: dict[str, Callable[[MtpHeads, Path], None]] = {
    "transformers": export_transformers, "vllm": export_vllm, "speculators": export_speculators,
}  # fmt: skip


def _layer(heads: MtpHeads) -> dict[str, Tensor]:
    """The module's tensors by transformers' names, in the trunk's dtype."""
    return {name: tensor.to("cpu", heads.trunk.model.dtype).contiguous() for name, tensor in heads.layer.state_dict().items()}


def _change_config(out: Path, changes: dict[str, Any]) -> None:
    file = out / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **changes}, indent=2) + "\n", encoding="utf-8")


def _add_tensors(out: Path, tensors: dict[str, Tensor]) -> None:
    """Put tensors into a saved model, as a file more in its index."""
    index = out / "model.safetensors.index.json"
    if index.is_file():
        described = json.loads(index.read_text(encoding="utf-8"))
    else:
        described = {"metadata": {}, "weight_map": dict.fromkeys(stored_tensors(out), "model-trunk.safetensors")}
        (out / "model.safetensors").rename(out / "model-trunk.safetensors")
    described["weight_map"] |= dict.fromkeys(tensors, "model-mtp.safetensors")
    save_file(tensors, out / "model-mtp.safetensors", {"format": "pt"})
    index.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m mtviz export --format …`; 2 where trunk and heads do not fit the format or each other."""
    parser = argparse.ArgumentParser(prog="python -m mtviz export", description="write mtp heads in another tool's format")
    parser.add_argument("--format", choices=list(FORMATS), required=True)
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="a new directory")
    parser.add_argument("--heads", type=Path, metavar="FILE", required=True, help="heads of the mtp family, as `train` writes them")
    parser.add_argument("--model", help="the trunk that they were trained on (default: SmolLM2-135M-Instruct)")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    arguments = parser.parse_args(argv)
    try:
        if arguments.out.exists() and any(arguments.out.iterdir()):
            raise HeadsError(f"{arguments.out} is not empty")
        heads = load_heads(arguments.heads, load_trunk(arguments.model, dtype=arguments.dtype))
        if not isinstance(heads, MtpHeads):
            raise HeadsError(f"{arguments.heads} holds {heads.family} heads; other tools run the mtp family only")
        FORMATS[arguments.format](heads, arguments.out)
    except (TrunkNotFound, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
