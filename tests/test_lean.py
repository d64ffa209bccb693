"""The lean forward pass: transformers' numbers, at any pass length, after crops and growth; and who may use it."""

import random

import pytest
import torch
from test_trunk import byte_tokenizer, tiny_trunk
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from mtviz.heads import MtpHeads
from mtviz.trunk import Trunk, kernel, load_trunk
from mtviz.trunk.lean import CHUNK, LeanCache, LeanLlama, qualifies

SHAPE = dict(
    vocab_size=260, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
    max_position_embeddings=1024, bos_token_id=None, eos_token_id=258, pad_token_id=None, initializer_range=0.2,
)  # fmt: skip


def llama(**changes) -> LlamaForCausalLM:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE | changes)).eval()
    for weight in model.parameters():
        if weight.dim() == 1:
            torch.nn.init.uniform_(weight, 0.5, 1.5)  # a norm of ones would hide a norm left out
    return model.to(torch.bfloat16).float()


@torch.inference_mode()
def in_pieces(trunk: Trunk | LeanLlama, ids: list[int], seed: int) -> torch.Tensor:
    """Logits of `ids` read in passes of 1 to 9 tokens, some of them after a wrong guess that was cropped away."""
    dice = random.Random(seed)
    cache, logits, at = trunk.new_cache(), [], 0
    while at < len(ids):
        if dice.random() < 0.5:
            trunk.forward([dice.randrange(260) for _ in range(dice.randint(1, 9))], cache)
            cache.crop(at)
        piece = ids[at : at + dice.randint(1, 9)]
        logits.append(trunk.forward(piece, cache)[0])
        at += len(piece)
        assert cache.length == at
    return torch.cat(logits)


@pytest.mark.parametrize("changes", [{}, {"num_key_value_heads": 6}, {"num_key_value_heads": 1, "head_dim": 16}, {"tie_word_embeddings": True}])
@torch.inference_mode()
def test_logits_are_transformers(changes):
    model = llama(**changes)
    ids = torch.randint(0, 260, (CHUNK + 100,)).tolist()
    wanted = model(torch.tensor([ids])).logits[0]
    trunk = Trunk(model, byte_tokenizer(), "tiny")
    assert isinstance(trunk.new_cache(), LeanCache)
    for seed in range(2):
        assert (in_pieces(trunk, ids, seed) - wanted).abs().max() < 1e-4


@torch.inference_mode()
def test_hidden_states_are_transformers():
    model = llama()
    ids = [3, 1, 4, 1, 5, 9]
    wanted = model.model(torch.tensor([ids])).last_hidden_state[0]
    trunk = Trunk(model, byte_tokenizer(), "tiny")
    logits, hidden = trunk.forward(ids, trunk.new_cache(), last_only=True)
    torch.testing.assert_close(hidden, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits, model(torch.tensor([ids])).logits[0, -1:], atol=1e-4, rtol=0)


@torch.inference_mode()
def test_bfloat16_weights_in_float16_lose_nothing(monkeypatch):
    monkeypatch.setattr(kernel, "compiled_kernel", lambda: None)
    model = llama()
    ids = torch.randint(0, 260, (60,)).tolist()
    wanted = model(torch.tensor([ids])).logits[0]
    trunk = Trunk(model.to(torch.bfloat16), byte_tokenizer(), "tiny")
    logits = in_pieces(trunk, ids, 0)
    hidden = trunk.forward(ids, trunk.new_cache())[1]
    assert hidden.dtype == torch.bfloat16 and logits.dtype == torch.float32
    packed = LeanLlama(model, 260).packed
    assert packed == (torch.backends.quantized.engine in ("x86", "fbgemm"))
    if packed:
        assert (logits - wanted).abs().max() < 1e-3  # rounded to bfloat16 on the way, it would be thirty times that


def test_weights_that_float16_cannot_hold_are_not_packed():
    model = llama().to(torch.bfloat16)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] = 1e5
    lean = LeanLlama(model, 260)
    assert not lean.packed
    with torch.inference_mode():
        assert lean.unembed(lean.forward([1, 2, 3], lean.new_cache()).float()).isfinite().all()


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_bias": True},
        {"mlp_bias": True},
        {"hidden_act": "gelu"},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}},
    ],
)
def test_other_llamas_run_through_transformers(changes):
    model = llama(**changes)
    assert not qualifies(model)
    trunk = Trunk(model, byte_tokenizer(), "other")
    with torch.inference_mode():
        wanted = model(torch.tensor([[5, 6, 7]])).logits[0]
    assert not isinstance(trunk.new_cache(), LeanCache)
    torch.testing.assert_close(trunk.forward([5, 6, 7], trunk.new_cache())[0], wanted)


def test_other_architectures_do_not_qualify():
    assert not qualifies(MistralForCausalLM(MistralConfig(**SHAPE)))
    assert not qualifies(llama().half())


def test_cache_crops_by_length_and_grows_by_doubling():
    cache = LeanCache(2, 4, 8, torch.float32, torch.device("cpu"))
    cache.reserve(CHUNK)
    states = cache.states
    states.normal_()
    cache.length = CHUNK
    cache.crop(CHUNK - 6)
    assert cache.length == CHUNK - 6 and cache.states is states
    for length in (-1, CHUNK - 5):
        with pytest.raises(ValueError, match="cannot crop"):
            cache.crop(length)
    cache.reserve(2 * CHUNK + 1)
    assert cache.states.shape[2] == 4 * CHUNK
    assert torch.equal(cache.states[:, :, : cache.length], states[:, :, : cache.length])


def test_prompts_longer_than_a_chunk_and_padded_vocabularies():
    trunk = tiny_trunk(rows=264, ids=260)
    logits, hidden = trunk.forward(list(range(250)), trunk.new_cache())
    assert logits.shape == (250, 260) and hidden.shape == (250, 32)


@pytest.mark.model
@pytest.mark.slow
@torch.inference_mode()
def test_real_trunk_for_200_tokens():
    trunk = load_trunk(dtype="float32", device="cpu")
    prompt = trunk.encode("Explain why the sky is blue, then tell a long story about a cat.")
    wanted_ids = trunk.model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=200)[0].tolist()
    wanted = trunk.model(torch.tensor([wanted_ids])).logits[0]
    logits = in_pieces(trunk, wanted_ids, 0)
    assert (logits - wanted).abs().max() < 1e-4
    assert logits[len(prompt) - 1 : -1].argmax(-1).tolist() == wanted_ids[len(prompt) :]


@torch.inference_mode()
def test_fused_heads_draft_what_their_module_drafts():
    trunk = Trunk(llama(tie_word_embeddings=True), byte_tokenizer(), "tiny")
    torch.manual_seed(1)
    heads = MtpHeads(trunk, torch.arange(0, 260, 2)).requires_grad_(False)
    for weight in heads.layer.parameters():
        weight += 0.1 * torch.randn_like(weight)
    ids = torch.randint(0, 260, (12,)).tolist()
    hidden = trunk.forward(ids, trunk.new_cache())[1]
    drafted = []
    for fused in (False, True):
        if fused:
            heads.fuse()
        state = heads.start()
        assert isinstance(state.cache, LeanCache) == fused
        heads.observe(state, hidden[:5], ids[1:6])
        logits = [heads.step(state, i, token) for i, token in enumerate((None, 3, 4, 5))]
        heads.observe(state, hidden[5:7], ids[6:8])  # after a rejection: the drafted positions are forgotten
        drafted.append(torch.stack([*logits, heads.step(state, 0, None), heads.step(state, 1, 7)]))
    torch.testing.assert_close(*drafted, atol=1e-4, rtol=1e-4)
