"""Heads of ours in other tools' formats: written, read back, and drafting the same there."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
import tiny_models
import torch
from both_drafts import PROMPT, greedy, ours, theirs
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import mtviz.__main__
from mtviz.heads import FAMILIES, load_heads, native_heads, save_heads
from mtviz.heads.export import FORMATS
from mtviz.trunk import Trunk, load_trunk


def trained(trunk: Trunk, path, family: str = "mtp", ids: int = 260):
    """Heads away from their identity start, saved."""
    heads = FAMILIES[family](trunk, torch.arange(ids))
    torch.manual_seed(4)
    for weight in heads.parameters():
        weight.data.add_(0.2 * torch.randn_like(weight))
    save_heads(heads, path)
    return path


@pytest.fixture
def saved(tmp_path):
    """A tiny trunk's directory, heads for it by what their file is called, and a function that exports them."""

    def make(kind: str, *arguments: str, heads: dict | None = None) -> tuple[int, Trunk]:
        path = tiny_models.save(tiny_models.model(kind), tmp_path / kind)
        trunk = load_trunk(str(path), dtype="float32", device="cpu")
        file = trained(trunk, tmp_path / "heads.safetensors", **(heads or {}))
        given = ["export", "--out", str(tmp_path / "out"), "--heads", str(file), "--model", str(path), "--dtype", "float32"]
        return mtviz.__main__.main([*given, *arguments]), trunk

    return make


@pytest.mark.parametrize("kind", ["llama-tied", "mistral"])
def test_stock_transformers_runs_the_heads_and_writes_the_greedy_text(saved, tmp_path, monkeypatch, kind):
    code, trunk = saved(kind, "--format", "transformers")
    assert code == 0
    ids, drafts = ours(trunk, load_heads(tmp_path / "heads.safetensors", trunk), 1)
    stock = AutoModelForCausalLM.from_pretrained(tmp_path / "out", trust_remote_code=True, dtype=torch.float32)
    assert isinstance(stock, type(trunk.model)) and type(stock) is not type(trunk.model)
    other = theirs(monkeypatch)
    prompt = torch.tensor([trunk.encode(PROMPT, raw=True)])
    output = stock.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=len(ids), use_mtp=True)
    assert output[0, prompt.shape[1] :].tolist() == ids == greedy(trunk)
    assert len(drafts) > 10 and drafts.keys() == other.keys()
    for start, tokens in drafts.items():
        assert tokens == other[start][: len(tokens)], start


@pytest.mark.parametrize("kind, form", [("llama-tied", "transformers"), ("llama", "vllm"), ("qwen2", "vllm")])
def test_what_is_exported_comes_back_as_the_trunks_own_layers(saved, tmp_path, kind, form):
    """Read as other people's checkpoints are, recursion included, with no program code run."""
    code, trunk = saved(kind, "--format", form)
    assert code == 0
    again = load_trunk(str(tmp_path / "out"), dtype="float32", device="cpu")
    native = native_heads(again)
    assert native is not None and native.depth == 1
    assert ours(again, native, 4) == ours(trunk, load_heads(tmp_path / "heads.safetensors", trunk), 4)
    described = json.loads((tmp_path / "out/config.json").read_text())
    assert described["architectures"] == (["MiMoForCausalLM"] if form == "vllm" else ["MtpLlamaForCausalLM"])


def test_the_speculators_layout(saved, tmp_path):
    code, trunk = saved("qwen3", "--format", "speculators")
    assert code == 0
    stored = load_file(tmp_path / "out/model.safetensors")
    heads = load_file(tmp_path / "heads.safetensors")
    assert torch.equal(stored["mtp_layers.0.input_proj.weight"], heads["layer.eh_proj.weight"].float())
    assert torch.equal(stored["mtp_layers.0.self_attn.q_norm.weight"], heads["layer.mtp_block.self_attn.q_norm.weight"].float())
    assert len(stored) == len(heads) - 1  # all but draft_ids
    described = json.loads((tmp_path / "out/config.json").read_text())
    assert described["speculators_model_type"] == "mtp" and described["transformer_layer_config"]["model_type"] == "qwen3"
    assert described["speculators_config"]["verifier"]["architectures"] == ["Qwen3ForCausalLM"]


@pytest.mark.skipif("SPECULATORS_PYTHON" not in os.environ, reason="SPECULATORS_PYTHON names no interpreter that has the library")
def test_the_speculators_library_makes_our_first_drafts(saved, tmp_path):
    """The library wants an older transformers than this project's, so it lives in an environment of its own (docs/models.md)."""
    _, trunk = saved("qwen3", "--format", "speculators")
    heads = load_heads(tmp_path / "heads.safetensors", trunk)
    ids = trunk.encode(PROMPT)
    hidden = trunk.forward(ids, trunk.new_cache())[1].clone()
    tokens = torch.tensor([ids])
    with torch.no_grad():
        expected = heads.unembed(heads.unroll(tokens, hidden[None], 1)[0])[0]
    save_file({"tokens": tokens, "hidden": hidden[None]}, tmp_path / "given.safetensors")
    program = """if True:
        import sys
        from safetensors.torch import load_file, save_file
        from speculators import SpeculatorModel
        given = load_file(sys.argv[2])
        logits, *_ = SpeculatorModel.from_pretrained(sys.argv[1]).float()(given["tokens"], given["hidden"])
        save_file({"logits": logits[0][0].detach().contiguous()}, sys.argv[3])"""
    paths = [tmp_path / "out", tmp_path / "given.safetensors", tmp_path / "drafts.safetensors"]
    subprocess.run([os.environ["SPECULATORS_PYTHON"], "-c", program, *map(str, paths)], check=True)
    drafts = load_file(paths[-1])["logits"]  # at places that leave room for its three steps
    torch.testing.assert_close(drafts, expected[: len(drafts)], atol=1e-5, rtol=0)
    assert len(drafts) == len(ids) - 4


@pytest.mark.parametrize(
    "kind, arguments, heads, message",
    [
        ("llama", ["--format", "speculators"], {}, "none for LlamaForCausalLM; take --format transformers or vllm"),
        ("mistral", ["--format", "vllm"], {}, "MistralForCausalLM cannot be written as one; take --format transformers"),
        ("llama", ["--format=transformers"], {"family": "parallel"}, "holds parallel heads; other tools run the mtp family only"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_by_name(saved, tmp_path, capsys, kind, arguments, heads, message):
    code, _ = saved(kind, *arguments, heads=heads)
    assert code == 2 and message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_directory_in_use_and_other_weights_are_refused(saved, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/kept.txt").write_text("mine")
    code, _ = saved("llama", "--format", next(iter(FORMATS)))
    assert code == 2 and "is not empty" in capsys.readouterr().err and (tmp_path / "out/kept.txt").read_text() == "mine"


def test_traces_are_exported_as_before(tmp_path, capsys):
    with pytest.raises(SystemExit):
        mtviz.__main__.main(["export", "--html", str(tmp_path / "x.html")])
    assert "TRACE" in capsys.readouterr().err
