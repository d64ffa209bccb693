"""The kernel: transformers' numbers, the same for a position in any pass, and torch's own products where it cannot be had."""

import logging
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from test_lean import in_pieces, llama
from test_trunk import byte_tokenizer

from mtviz.training.generate import Document, _by_kernel, generate_batch
from mtviz.trunk import Trunk, kernel, load_trunk
from mtviz.trunk.kernel import CompiledLlama, lean_pass, pack
from mtviz.trunk.lean import CHUNK, Joined, LeanLlama

could = sys.platform == "linux" and shutil.which("cc") and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
needs_kernel = pytest.mark.skipif(not could, reason="no C compiler, or a processor that the kernel is not for")
WIDE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64}


def compiled(**changes) -> Trunk:
    trunk = Trunk(llama(**changes).to(torch.bfloat16), byte_tokenizer(), "tiny")
    assert isinstance(trunk.lean, CompiledLlama)
    return trunk


@needs_kernel
@pytest.mark.parametrize("changes", [{}, {"num_key_value_heads": 6}, {"num_key_value_heads": 1, "head_dim": 16}, WIDE, WIDE | {"head_dim": 128}])
@torch.inference_mode()
def test_logits_are_those_of_float32(changes):
    ids = torch.randint(0, 260, (CHUNK + 100,)).tolist()
    wanted = llama(**changes)(torch.tensor([ids])).logits[0]
    trunk = compiled(**changes)
    for seed in range(2):
        assert (in_pieces(trunk, ids, seed) - wanted).abs().max() < 1e-4


@needs_kernel
@torch.inference_mode()
def test_gates_far_from_zero_open_and_close():
    ids = torch.randint(0, 260, (20,)).tolist()
    model = llama(num_hidden_layers=1)
    model.model.layers[0].mlp.gate_proj.weight *= 256  # gates of hundreds, where e^x overflows
    wanted = model(torch.tensor([ids])).logits[0]
    assert model.model.layers[0].mlp.gate_proj(model.model.embed_tokens(torch.tensor(ids))).abs().max() > 100
    trunk = Trunk(model.to(torch.bfloat16), byte_tokenizer(), "tiny")
    torch.testing.assert_close(trunk.forward(ids, trunk.new_cache())[0], wanted, atol=1e-3, rtol=1e-4)


@needs_kernel
@torch.inference_mode()
def test_a_position_has_the_same_bits_in_any_pass():
    trunk = compiled()
    ids = torch.randint(0, 260, (CHUNK + 60,)).tolist()
    at_once, hidden = trunk.forward(ids, trunk.new_cache())
    for seed in range(3):
        assert torch.equal(in_pieces(trunk, ids, seed), at_once)
    one_by_one = trunk.new_cache()
    assert torch.equal(torch.cat([trunk.forward([id_], one_by_one)[1] for id_ in ids]), hidden)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(trunk.forward(ids, trunk.new_cache())[0], at_once)
    finally:
        torch.set_num_threads(before)


@needs_kernel
@torch.inference_mode()
def test_several_sequences_share_a_pass():
    trunk = compiled()
    texts = [torch.randint(0, 260, (n,)).tolist() for n in (1, 40, 7, CHUNK + 1)]  # the last one's cache must grow
    caches = [trunk.new_cache() for _ in texts]
    for text, cache in zip(texts, caches):
        if text[:-1]:
            trunk.forward(text[:-1], cache)
    together = trunk.lean.forward_each([text[-1] for text in texts], caches)
    assert [cache.length for cache in caches] == [len(text) for text in texts]
    for text, row in zip(texts, together):
        assert torch.equal(trunk.lean.forward(text, trunk.new_cache())[-1], row)


@needs_kernel
@pytest.mark.parametrize("rows", [1, 15, 16, 33, 200])
def test_products_of_any_number_of_rows_and_positions(rows):
    torch.manual_seed(rows)
    weight = torch.randn(rows, 72).to(torch.bfloat16)
    product = compiled().lean.linear(weight)
    for n in range(14):
        x = torch.randn(n, 72)
        torch.testing.assert_close(product(x), (x.double() @ weight.double().T).float(), atol=1e-4, rtol=1e-4)
    x = torch.randn(72, 3, 2).permute(2, 1, 0)  # not contiguous
    torch.testing.assert_close(product(x), x @ weight.float().T, atol=1e-4, rtol=1e-4)


@needs_kernel
@torch.inference_mode()
def test_a_join_is_what_its_parts_are():
    lean = compiled().lean
    joined = Joined(torch.rand(48), torch.rand(48), lean.linear(torch.randn(48, 96)), lean._layers, torch.rand(48))
    embeds, hidden = torch.randn(2, 9, 48)
    wanted = LeanLlama.run_joined(lean, joined, embeds, hidden, lean.new_cache())  # norms, join and layers one by one
    cache = lean.new_cache()
    pieces = [lean.run_joined(joined, embeds[part], hidden[part], cache) for part in (slice(0, 4), slice(4, 9))]
    torch.testing.assert_close(torch.cat(pieces), wanted, atol=1e-4, rtol=1e-4)


@needs_kernel
@torch.inference_mode()
def test_what_c_would_read_past_is_refused():
    lean = compiled().lean
    for wrong in (torch.zeros(2, 40), torch.zeros(2, 48, dtype=torch.bfloat16)):
        with pytest.raises(ValueError, match="float32 of width 48"):
            lean.unembed(wrong)
        with pytest.raises(ValueError, match="float32 of width 48"):
            lean.run(lean._layers, wrong, lean.new_cache())
    joined = Joined(*(torch.ones(48),) * 2, lean.linear(torch.randn(48, 96)), lean._layers, torch.ones(48))
    with pytest.raises(ValueError, match="1 embeddings cannot be joined with 2 hidden states"):
        lean.run_joined(joined, torch.zeros(1, 48), torch.zeros(2, 48), lean.new_cache())
    with pytest.raises(ValueError, match="2 layers need a cache"):
        lean.forward([1], lean.new_cache(layers=1))


def test_packing_pads_and_keeps_every_weight():
    weight = torch.arange(20 * 8, dtype=torch.float32).view(20, 8)
    packed = pack(weight)
    assert packed.shape == (2, 8, 8, 2) and packed.dtype == torch.bfloat16
    for row in range(20):
        assert packed[row // 16, :, row % 8, row % 16 // 8].tolist() == weight[row].to(torch.bfloat16).tolist()
    assert not packed[1, :, 4:, 0].any() and not packed[1, :, :, 1].any()


@needs_kernel
@torch.inference_mode()
def test_threads_may_pass_at_the_same_time():
    trunk = compiled()
    ids = torch.randint(0, 260, (50,)).tolist()
    wanted = trunk.forward(ids, trunk.new_cache())[0]
    with ThreadPoolExecutor(4) as pool:
        for logits in pool.map(lambda _: trunk.forward(ids, trunk.new_cache())[0], range(40)):
            assert torch.equal(logits, wanted)


@needs_kernel
def test_the_trunks_text_for_training_is_what_it_writes_alone():
    trunk = compiled()
    given = [torch.randint(0, 250, (n,)).tolist() for n in (1, 5, 9) * 6]
    for ids, new in zip(given, _by_kernel(trunk, given, 12, 0.0, 0)):
        tokens = list(ids)
        while len(tokens) < len(ids) + 12 and not (len(tokens) > len(ids) and tokens[-1] in trunk.end_ids):
            tokens.append(int(trunk.forward(tokens, trunk.new_cache(), last_only=True)[0][0].argmax()))
        assert tokens == [*ids, *new]
    assert _by_kernel(trunk, given, 12, 0.8, 1) == _by_kernel(trunk, given, 12, 0.8, 1) != _by_kernel(trunk, given, 12, 0.8, 2)
    document = generate_batch(trunk, ["rain", "stone"], 0, 1, 5, 0)[0]
    assert isinstance(document, Document) and len(document.tokens) > document.prompt_len


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """`compiled_kernel` as in a new process, with an empty cache."""
    monkeypatch.setattr(kernel, "compiled_kernel", kernel.compiled_kernel.__wrapped__)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mtviz"


def test_without_a_compiler_torch_makes_the_products(fresh, monkeypatch, caplog):
    model = llama().to(torch.bfloat16)
    for compiler in ("no-such-compiler", "false"):
        monkeypatch.setenv("CC", compiler)
        assert type(lean_pass(model, 260)) is LeanLlama
    if could:
        assert caplog.text.count("torch's own products instead") == 2 and not list(fresh.iterdir())


@needs_kernel
def test_a_damaged_kernel_is_made_anew_and_a_strangers_is_left_alone(fresh, monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("CC", "cc -g0")
    assert kernel.compiled_kernel() is not None
    (whole,) = fresh.iterdir()
    other = tmp_path / "other" / "mtviz"  # the one in use is left alone: this process runs it
    other.mkdir(parents=True)
    (other / whole.name).write_bytes(whole.read_bytes()[:100])
    monkeypatch.setenv("XDG_CACHE_HOME", str(other.parent))
    assert kernel.compiled_kernel() is not None and [path.name for path in other.iterdir()] == [whole.name]
    assert (other / whole.name).stat().st_size == whole.stat().st_size
    monkeypatch.setattr(kernel.os, "getuid", lambda: -1)
    assert kernel.compiled_kernel() is None and "somebody else's" in caplog.text


def test_float32_and_odd_sizes_stay_with_torch():
    assert type(lean_pass(llama(), 260)) is LeanLlama
    assert type(lean_pass(llama(intermediate_size=60).to(torch.bfloat16), 260)) is LeanLlama


@needs_kernel
@pytest.mark.model
@pytest.mark.slow
@torch.inference_mode()
def test_the_default_trunk_is_float32s_within_a_thousandth():
    exact, fast = load_trunk(dtype="float32"), load_trunk(dtype="bfloat16")
    ids = exact.encode("Explain in some detail how a tide comes about, and why there are two of them a day.")
    wanted = exact.forward(ids, exact.new_cache())[0]
    assert (in_pieces(fast, ids, 0) - wanted).abs().max() < 1e-3
