"""MTP layers of other people's checkpoints, in their published layouts, against transformers' own drafts where it makes any."""

from __future__ import annotations

import json

import pytest
import tiny_models
import torch
from both_drafts import PROMPT, greedy, ours, theirs
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RMSNorm

from mtviz.drafting.files import load_drafters
from mtviz.heads import HeadsError, native_heads
from mtviz.service import Service
from mtviz.settings import Settings
from mtviz.trace import validate
from mtviz.trunk import Trunk, load_trunk


def loaded(kind: str, path, depth: int = 1) -> Trunk:
    return load_trunk(str(tiny_models.save_native(kind, path, depth)), dtype="float32", device="cpu")


@pytest.mark.parametrize("kind, depth", [("deepseek-v3", 1), ("deepseek-v3", 3), ("glm4-moe", 2)])
def test_drafts_are_those_of_transformers_and_the_text_is_greedy(tmp_path, monkeypatch, kind, depth):
    trunk = loaded(kind, tmp_path, depth)
    heads = native_heads(trunk)
    ids, drafts = ours(trunk, heads, depth)
    assert heads.depth == depth and heads.hidden == "post_norm" and ids == greedy(trunk)
    other = theirs(monkeypatch)
    assert greedy(trunk, use_mtp=True) == ids
    assert drafts.keys() == other.keys() and len(drafts) > 5
    for start, tokens in drafts.items():
        assert tokens == other[start][: len(tokens)], start


@pytest.mark.parametrize("kind", ["deepseek-v3", "qwen3-next", "qwen3.5", "mimo"])
def test_drafting_goes_on_beyond_the_layers_own_depth(tmp_path, kind):
    trunk = loaded(kind, tmp_path)
    heads = native_heads(trunk)
    ids, drafts = ours(trunk, heads, 5)
    assert heads.depth == 1 and ids == greedy(trunk)
    assert max(map(len, drafts.values())) == 5
    _, first = ours(trunk, heads, 1)
    assert all(first[start] == tokens[:1] for start, tokens in drafts.items() if start in first)


@pytest.mark.parametrize("kind, depth", [("deepseek-v3", 3), ("qwen3.5", 1), ("mimo", 2)])
def test_observing_piecewise_or_after_drafting_changes_nothing(tmp_path, kind, depth):
    trunk = loaded(kind, tmp_path, depth)
    heads = native_heads(trunk)
    ids = trunk.encode(PROMPT, raw=True)
    _, hidden = trunk.forward(ids, trunk.new_cache())
    next_ids = [*ids[1:], 7]
    whole, pieces = heads.start(), heads.start()
    heads.observe(whole, hidden, next_ids)
    for first, last in ((0, 1), (1, 2), (2, 9), (9, 10), (10, len(ids))):
        heads.observe(pieces, hidden[first:last], next_ids[first:last])
        for i, token in enumerate([None, 2, 6, 8, 9]):  # rejected drafts, to be forgotten
            heads.step(pieces, i, token)
    heads.observe(pieces, hidden[:0], [])
    for i, token in enumerate([None, 10, 12, 14, 16]):
        torch.testing.assert_close(heads.step(pieces, i, token), heads.step(whole, i, token), atol=1e-4, rtol=1e-4)


def test_mimo_layers_compute_what_their_authors_wrote(tmp_path):
    """hidden_layernorm and token_layernorm, joined hidden first, a Qwen2 layer, final_layernorm: built here once more."""
    trunk = loaded("mimo", tmp_path)
    stored = {name.removeprefix("model.mtp_layers.0."): tensor.float() for name, tensor in load_file(tmp_path / "model.safetensors").items() if "mtp" in name}
    config = trunk.model.config
    block = Qwen2DecoderLayer(config, 0)
    alone = {name: tensor for name, tensor in stored.items() if name.split(".")[0] in ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")}
    block.load_state_dict(alone)

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        layer = Qwen2RMSNorm(len(stored[f"{name}.weight"]), eps=config.rms_norm_eps)
        layer.weight = nn.Parameter(stored[f"{name}.weight"])
        return layer(x)

    ids = trunk.encode(PROMPT, raw=True)
    _, hidden = trunk.forward(ids, trunk.new_cache())
    next_ids = [*ids[1:], 7]
    heads = native_heads(trunk)
    state = heads.start()
    heads.observe(state, hidden, next_ids)
    with torch.no_grad():
        embeds = trunk.embed(torch.tensor([next_ids]))
        joined = torch.cat([norm("hidden_layernorm", hidden.clone()[None]), norm("token_layernorm", embeds)], dim=-1)
        x = joined @ stored["input_proj.weight"].T
        rotary = trunk.model.get_decoder().rotary_emb(x, position_ids=torch.arange(len(ids))[None])
        causal = torch.full((len(ids), len(ids)), -torch.inf).triu(1)[None, None]
        out = norm("final_layernorm", block(x, attention_mask=causal, position_embeddings=rotary))
        wanted = trunk.unembed(out[0, -1:])[0]
    torch.testing.assert_close(heads.step(state, 0, None), wanted, atol=1e-3, rtol=1e-3)


def test_the_state_before_the_final_norm_can_be_asked_for(tmp_path):
    """Handed over without the norm's weights it gives other drafts; with a norm that has none, the same."""
    trunk = loaded("qwen3.5", tmp_path)
    after, before = (native_heads(trunk, hidden) for hidden in ("post_norm", "pre_norm"))
    ids = trunk.encode(PROMPT, raw=True)
    _, hidden = trunk.forward(ids, trunk.new_cache())

    def first(heads) -> torch.Tensor:
        state = heads.start()
        heads.observe(state, hidden, [*ids[1:], 7])
        return heads.step(state, 0, None)

    assert (first(after) - first(before)).abs().max() > 1e-2
    before._final_norm.weight.fill_(1.0)
    torch.testing.assert_close(first(after), first(before), atol=1e-3, rtol=1e-3)


def test_the_stage_gets_them_as_the_mtp_family(tmp_path):
    trunk = loaded("glm4-moe", tmp_path / "model")
    (tmp_path / "heads").mkdir()
    drafters, refused = load_drafters(tmp_path / "heads", trunk)
    assert list(drafters) == ["mtp"] and not refused and len(drafters["mtp"]().heads.fingerprint) == 64


@pytest.mark.parametrize("kind", ["mimo", "glm4-moe"])
def test_they_leave_the_angles_of_the_trunk_exact(tmp_path, kind):
    exact = loaded(kind, tmp_path).model.get_decoder().rotary_emb.inv_freq
    trunk = load_trunk(str(tmp_path), dtype="bfloat16", device="cpu")
    assert native_heads(trunk) is not None and not torch.equal(exact, exact.bfloat16().float())
    assert torch.equal(trunk.model.get_decoder().rotary_emb.inv_freq, exact)


def test_the_service_serves_such_a_model(tmp_path):
    service = Service(model=str(tiny_models.save_native("glm4-moe", tmp_path / "tiny")), dtype="float32", heads=tmp_path / "none")
    *_, trace = service.decode("hello", Settings(drafter="mtp", rule="match", num_draft_tokens=3, max_new_tokens=8))
    assert (validate(trace)["model"]["trunk"], trace["model"]["family"]) == ("tiny", "mtp") and trace["finish_reason"] in ("length", "stop")
    assert service.status()["drafters"] == ["mtp", "lookup", "none"]


def test_a_checkpoint_without_such_layers_has_none(tmp_path):
    path = tiny_models.save(tiny_models.model("llama"), tmp_path)
    assert native_heads(load_trunk(str(path), dtype="float32", device="cpu")) is None
    assert native_heads(tiny_models.trunk("llama")) is None  # made in memory


@pytest.mark.parametrize(
    "kind, change, message",
    [
        ("mimo", lambda w: w.pop("model.mtp_layers.0.input_proj.weight"), "Missing key.*0.eh_proj.weight"),
        ("mimo", lambda w: w.update({"model.mtp_layers.0.gate.weight": torch.ones(2)}), "Unexpected key.*gate.weight"),
        ("qwen3.5", lambda w: w.pop("mtp.norm.weight"), "missing.*post_norm.weight"),
        ("deepseek-v3", lambda w: w.pop("model.layers.2.eh_proj.weight"), "missing.*eh_proj.weight"),
        ("qwen3.5", lambda w: w["mtp.fc.weight"].fill_(float("nan")), "NaN"),
        ("qwen3.5", lambda w: [w.update({f"mtp.odd{i}": w.pop(name)}) for i, name in enumerate([n for n in w if n.startswith("mtp.")])], "no layout with a tensor mtp.odd0"),
    ],
)  # fmt: skip
def test_layers_that_do_not_fit_are_refused_by_name(tmp_path, kind, change, message):
    path = tiny_models.save_native(kind, tmp_path)
    weights = load_file(path / "model.safetensors")
    change(weights)
    save_file(weights, path / "model.safetensors", {"format": "pt"})
    trunk = load_trunk(str(path), dtype="float32", device="cpu")
    with pytest.raises(HeadsError, match=f"(?s)the MTP layers of .*{message}"):
        native_heads(trunk)


def test_mimo_is_loaded_without_running_its_program(tmp_path):
    path = tiny_models.save_native("mimo", tmp_path)
    (path / "configuration_mimo.py").write_text("raise SystemExit('the program was run')")
    assert json.loads((path / "config.json").read_text())["auto_map"]
    assert load_trunk(str(path), device="cpu").hidden_size == 32
