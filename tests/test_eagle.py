"""EAGLE-1 heads from files in their authors' layout."""

from __future__ import annotations

import pytest
import tiny_models
import torch
from both_drafts import PROMPT, greedy, ours
from safetensors.torch import save_file
from torch import nn
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

from mtviz.drafting.files import load_drafters
from mtviz.heads import HeadsError, load_eagle
from mtviz.trunk import Trunk


@pytest.fixture(scope="module")
def trunk() -> Trunk:
    return tiny_models.trunk("llama")


def eagle(trunk: Trunk) -> dict[str, torch.Tensor]:
    """As published: `fc`, one decoder layer without its first norm, and the trunk's embedding once more."""
    torch.manual_seed(6)
    width = trunk.hidden_size
    layer = LlamaDecoderLayer(trunk.model.config, 0).state_dict()
    tensors = {f"layers.0.{name}": tensor + 0.2 * torch.randn_like(tensor) for name, tensor in layer.items() if name != "input_layernorm.weight"}
    tensors |= {"fc.weight": 0.2 * torch.randn(width, 2 * width), "fc.bias": 0.2 * torch.randn(width)}
    return {**tensors, "embed_tokens.weight": trunk.model.get_input_embeddings().weight.clone()}


def reference(trunk: Trunk, tensors: dict[str, torch.Tensor], hidden: torch.Tensor, next_ids: list[int]) -> torch.Tensor:
    """Their forward pass, written out: logits of the first draft."""
    layer = LlamaDecoderLayer(trunk.model.config, 0)
    layer.input_layernorm = nn.Identity()
    layer.load_state_dict({name.removeprefix("layers.0."): tensor for name, tensor in tensors.items() if name.startswith("layers.0.")})
    x = torch.cat([trunk.embed(torch.tensor([next_ids])), hidden[None]], dim=-1) @ tensors["fc.weight"].T + tensors["fc.bias"]
    n = len(next_ids)
    rotary = trunk.model.get_decoder().rotary_emb(x, position_ids=torch.arange(n)[None])
    return trunk.unembed(layer(x, attention_mask=torch.full((n, n), -torch.inf).triu(1)[None, None], position_embeddings=rotary)[0, -1:])[0]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_the_first_draft_is_theirs_and_the_text_is_greedy(trunk, tmp_path, name):
    tensors = eagle(trunk)
    torch.save(tensors, tmp_path / name) if name.endswith(".bin") else save_file(tensors, tmp_path / name)
    drafters, refused = load_drafters(tmp_path, trunk)
    assert list(drafters) == ["mtp"] and not refused
    heads = drafters["mtp"]().heads
    ids = trunk.encode(PROMPT, raw=True)
    _, hidden = trunk.forward(ids, trunk.new_cache())
    next_ids = [*ids[1:], 7]
    state = heads.start()
    heads.observe(state, hidden, next_ids)
    with torch.no_grad():
        wanted = reference(trunk, tensors, hidden.clone(), next_ids)
    torch.testing.assert_close(heads.step(state, 0, None), wanted, atol=1e-3, rtol=1e-3)
    text, drafts = ours(trunk, heads, 4)
    assert text == greedy(trunk) and max(map(len, drafts.values())) == 4


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.pop("layers.0.mlp.up_proj.weight"), "lacks the tensor mtp_block.mlp.up_proj.weight"),
        (lambda t: t.update({"odd.weight": torch.ones(1)}), "does not know: odd.weight"),
        (lambda t: t.update({"midlayer.hidden_norm.weight": torch.ones(1)}), "is EAGLE-3 .*three inner layers"),
        (lambda t: t["fc.weight"].fill_(float("nan")), "NaN"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(trunk, tmp_path, change, message):
    tensors = eagle(trunk)
    change(tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(HeadsError, match=message):
        load_eagle(tmp_path / "model.safetensors", trunk)
    with pytest.raises(HeadsError, match="Llama layers, and gpt2 is a GPT2LMHeadModel"):
        load_eagle(tmp_path / "model.safetensors", tiny_models.trunk("gpt2"))
