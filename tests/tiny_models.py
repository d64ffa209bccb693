"""Tiny randomly initialised models of many architectures, in memory and as checkpoints on disk in their published layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from test_trunk import byte_tokenizer
from transformers import (
    AutoModelForCausalLM, CohereConfig, DeepseekV3Config, Gemma2Config, GemmaConfig, Glm4MoeConfig, GPT2Config, GraniteConfig, LlamaConfig,
    Mamba2Config, MambaConfig, MistralConfig, PhiConfig, PreTrainedConfig, PreTrainedModel, Qwen2Config, Qwen3_5TextConfig, Qwen3Config, Qwen3NextConfig,
)  # fmt: skip

from mtviz.trunk import Trunk

IDS, WINDOW, END = 260, 12, 258
SIZES: dict[str, Any] = {
    "vocab_size": IDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 256, "bos_token_id": None, "eos_token_id": END, "pad_token_id": None, "initializer_range": 0.3,
}  # fmt: skip
HEAD = {"head_dim": 8}
LINEAR = {
    "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4, "linear_num_key_heads": 2,
    "linear_key_head_dim": 8, "linear_value_head_dim": 8,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
ROUTED = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip


def config(kind: str) -> PreTrainedConfig:
    small = {name: SIZES[name] for name in ("vocab_size", "eos_token_id", "bos_token_id", "initializer_range")}
    match kind:
        case "llama":
            return LlamaConfig(**SIZES, tie_word_embeddings=False)
        case "llama-tied":
            return LlamaConfig(**SIZES, tie_word_embeddings=True)
        case "qwen2":
            return Qwen2Config(**SIZES, tie_word_embeddings=True)
        case "qwen3":
            return Qwen3Config(**SIZES, **HEAD)
        case "gemma":
            return GemmaConfig(**SIZES, **HEAD)
        case "gemma2":  # logits with a soft cap, a window in every other layer
            return Gemma2Config(**SIZES, **HEAD, sliding_window=WINDOW, query_pre_attn_scalar=8, final_logit_softcapping=5.0)
        case "gpt2":
            return GPT2Config(**small, n_embd=32, n_layer=2, n_head=4, n_positions=256)
        case "mistral":  # a window in every layer
            return MistralConfig(**SIZES, sliding_window=WINDOW)
        case "granite":
            return GraniteConfig(**SIZES, logits_scaling=4.0)
        case "cohere":
            return CohereConfig(**SIZES, logit_scale=0.25)
        case "phi":
            return PhiConfig(**SIZES)
        case "mamba":  # recurrent in every layer
            return MambaConfig(**small, hidden_size=32, state_size=4, num_hidden_layers=2, pad_token_id=None)
        case "mamba2":
            return Mamba2Config(**small, hidden_size=32, state_size=8, num_heads=8, head_dim=8, n_groups=1, num_hidden_layers=2, pad_token_id=None)
        case "qwen3-next":  # recurrent in every other layer, with experts
            return Qwen3NextConfig(**SIZES, **HEAD, **LINEAR, **EXPERTS)
        case "qwen3.5":
            return Qwen3_5TextConfig(**SIZES, **HEAD, **LINEAR)
        case "deepseek-v3":
            latent = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8}
            return DeepseekV3Config(**{**SIZES, "num_key_value_heads": 4}, **ROUTED, **latent)
        case "glm4-moe":
            return Glm4MoeConfig(**SIZES, **HEAD, **ROUTED)
        case _:
            raise ValueError(kind)


def model(kind: str, seed: int = 0) -> PreTrainedModel:
    """Random weights, biases and norms too, so that every part of the architecture counts."""
    torch.manual_seed(seed)
    made = AutoModelForCausalLM.from_config(config(kind), dtype=torch.float32)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    return made.eval()


def trunk(kind: str, seed: int = 0) -> Trunk:
    return Trunk(model(kind, seed), byte_tokenizer(IDS), kind)


def save(made: PreTrainedModel, path: Path) -> Path:
    """A model directory: weights in bfloat16, configuration and tokenizer."""
    made.to(torch.bfloat16).save_pretrained(path)
    tokenizer = byte_tokenizer(IDS)
    tokenizer.unk_token = tokenizer.pad_token = tokenizer.eos_token  # else Qwen2's class gives itself one more
    tokenizer.save_pretrained(path)
    return path


def save_native(kind: str, path: Path, depth: int = 1) -> Path:
    """A checkpoint with `depth` MTP layers in its published layout: a model with so many layers more, renamed on disk."""
    described = config({"mimo": "qwen2"}.get(kind, kind))
    described.num_hidden_layers += depth
    if getattr(described, "layer_types", None):
        described.layer_types = [*described.layer_types, *["full_attention"] * depth]
    if getattr(described, "mlp_layer_types", None):
        described.mlp_layer_types = [*described.mlp_layer_types, *described.mlp_layer_types[-1:] * depth]
    torch.manual_seed(3)
    made = AutoModelForCausalLM.from_config(described, dtype=torch.float32)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.dim() == 1:
                weight.add_(0.1 * torch.randn_like(weight))
    save(made, path)
    rewrite_config(path, **_described(kind, depth, path))
    weights = load_file(path / "model.safetensors")
    for n in range(depth):
        layer = f"model.layers.{2 + n}."
        own = {name.removeprefix(layer): weights.pop(name) for name in list(weights) if name.startswith(layer)}
        weights |= _renamed(kind, n, own)
    if kind in ("deepseek-v3", "glm4-moe"):  # published with copies of what they share with the trunk
        weights |= {f"model.layers.{2 + n}.embed_tokens.weight": weights["model.embed_tokens.weight"].clone() for n in range(depth)}
        weights |= {f"model.layers.{2 + n}.shared_head.head.weight": weights["lm_head.weight"].clone() for n in range(depth)}
    save_file(weights, path / "model.safetensors", {"format": "pt"})
    return path


def _renamed(kind: str, n: int, own: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of one MTP layer, `own` those of its decoder layer, by their names in a checkpoint of this kind."""
    width = SIZES["hidden_size"]
    centre = 0.0 if kind.startswith("qwen3") else 1.0  # Qwen3-Next stores the weights of norms as offsets from one
    extra = {name: (centre + 0.1 * torch.randn(width)).bfloat16() for name in ("embedding", "hidden", "last")}
    joint = (0.2 * torch.randn(width, 2 * width)).bfloat16()
    match kind:
        case "mimo":
            names = {"embedding": "token_layernorm", "hidden": "hidden_layernorm", "last": "final_layernorm"}
            prefix = f"model.mtp_layers.{n}."
            own = {**own, "input_proj.weight": joint}
        case "deepseek-v3" | "glm4-moe":
            names = {"embedding": "enorm", "hidden": "hnorm", "last": "shared_head.norm"}
            prefix = f"model.layers.{2 + n}."
            own = {**own, "eh_proj.weight": joint}
        case _:
            names = {"embedding": "pre_fc_norm_embedding", "hidden": "pre_fc_norm_hidden", "last": "norm"}
            around = {"mtp.fc.weight": joint, **{f"mtp.{names[role]}.weight": tensor for role, tensor in extra.items()}}
            return {**around, **{f"mtp.layers.{n}.{name}": tensor for name, tensor in own.items()}}
    own |= {f"{names[role]}.weight": tensor for role, tensor in extra.items()}
    return {prefix + name: tensor for name, tensor in own.items()}


def _described(kind: str, depth: int, path: Path) -> dict[str, Any]:
    """What the published configuration says, and the larger one that was saved does not."""
    said = json.loads((path / "config.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = {"num_hidden_layers": 2}
    for name in ("layer_types", "mlp_layer_types"):
        if said.get(name):
            found[name] = said[name][:2]
    if kind == "mimo":
        found |= {
            "model_type": "mimo", "architectures": ["MiMoForCausalLM"], "attention_bias": True, "num_nextn_predict_layers": depth,
            "auto_map": {"AutoConfig": "configuration_mimo.MiMoConfig", "AutoModelForCausalLM": "modeling_mimo.MiMoForCausalLM"},
        }  # fmt: skip
    elif not kind.startswith("qwen"):
        found |= {"num_nextn_predict_layers": depth, "num_mtp_layers": None}
    return found


def rewrite_config(path: Path, **changes: Any) -> None:
    """Change fields of a saved configuration; None takes one out."""
    file = path / "config.json"
    described = {**json.loads(file.read_text(encoding="utf-8")), **changes}
    file.write_text(json.dumps({name: value for name, value in described.items() if value is not None}), encoding="utf-8")
