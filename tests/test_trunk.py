"""The trunk: exact bytes, prompts, crop, vocabulary limits, look-up order and the converted copy."""

import copy
import threading
import time

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import mtviz.trunk.load as loading
from mtviz.trunk import Trunk, TrunkError, TrunkNotFound, load_trunk
from mtviz.trunk.tokens import BYTE_OF

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(size: int = 260) -> PreTrainedTokenizerFast:
    """256 bytes, two control tokens and filler up to `size`."""
    vocab = {character: byte for character, byte in BYTE_OF.items()}
    vocab |= {f"filler{i}": i for i in range(256, size - 2)}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def tiny_trunk(rows: int = 260, ids: int = 260, seed: int = 0, dtype: torch.dtype = torch.float32) -> Trunk:
    """A random two-layer Llama of width 32 on a byte-level tokenizer."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=rows, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=ids - 2, pad_token_id=None,
        tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    return Trunk(LlamaForCausalLM(config).to(dtype), byte_tokenizer(ids), "tiny")


@pytest.fixture(scope="module")
def trunk() -> Trunk:
    return tiny_trunk()


def test_bytes_of_every_id_are_exact(trunk):
    assert [trunk.token_bytes(i) for i in range(256)] == [bytes([i]) for i in range(256)]
    assert trunk.token_bytes(258) == b"<|im_end|>"
    text = "聪明 🙂 ça\n\t<b>"
    assert trunk.decode(trunk.encode(text, raw=True)) == text


@pytest.mark.parametrize("prompt", ["Hello", " lead", "\n\nHi\n", "a<b & c>d", "🙂", "user text", "tail \n"])
def test_prompt_ids_are_the_chat_templates(trunk, prompt):
    turn = [{"role": "user", "content": prompt}]
    wanted = trunk.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert trunk.encode(prompt) == wanted


def test_typed_control_tokens_are_text(trunk):
    ids = trunk.encode("x <|im_end|> y")
    assert ids.count(258) == 1  # the template's own
    assert trunk.decode(ids) == "<|im_start|>user\nx <|im_end|> y<|im_end|>\n<|im_start|>assistant\n"
    assert 258 not in trunk.encode("<|im_end|>", raw=True)


def test_crop_leaves_the_logits_of_an_uncached_forward(trunk):
    ids = [5, 9, 200, 31, 7, 77]
    cache = trunk.new_cache()
    trunk.forward(ids[:3] + [1, 2, 3, 4], cache)
    cache.crop(3)
    assert cache.length == 3
    logits, hidden = trunk.forward(ids[3:], cache)
    whole, whole_hidden = trunk.forward(ids, trunk.new_cache())
    torch.testing.assert_close(logits, whole[3:], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(hidden, whole_hidden[3:], atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="cannot crop"):
        cache.crop(7)


def test_prefill_may_score_the_last_position_only(trunk):
    ids = [5, 9, 200]
    last, hidden = trunk.forward(ids, trunk.new_cache(), last_only=True)
    whole, _ = trunk.forward(ids, trunk.new_cache())
    assert last.shape == (1, 260) and hidden.shape == (3, 32)
    torch.testing.assert_close(last, whole[-1:])


def test_sequence_limits(trunk):
    with pytest.raises(ValueError, match="at least one"):
        trunk.forward([], trunk.new_cache())
    with pytest.raises(ValueError, match="exceed the context of 256"):
        trunk.forward([1] * 257, trunk.new_cache())


def test_greedy_ids_equal_generate(trunk):
    ids = trunk.encode("Hi", raw=True)
    wanted = trunk.model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=24)[0].tolist()
    cache, sequence, pending = trunk.new_cache(), list(ids), list(ids)
    while len(sequence) < len(ids) + 24 and sequence[-1] not in trunk.end_ids:
        logits, _ = trunk.forward(pending, cache, last_only=True)
        pending = [int(logits[-1].argmax())]
        sequence += pending
    assert sequence == wanted


def test_field_F08_padded_vocabulary_is_sliced_and_a_wider_tokenizer_refused():
    padded = tiny_trunk(rows=320)
    logits, _ = padded.forward([1, 2], padded.new_cache())
    assert padded.vocab_size == 260 and logits.shape == (2, 260)
    with pytest.raises(TrunkError, match="300 ids.*260"):
        tiny_trunk(rows=260, ids=300)


def test_logits_are_float32_in_bfloat16_mode():
    trunk = tiny_trunk(dtype=torch.bfloat16)
    logits, hidden = trunk.forward([1, 2, 3], trunk.new_cache())
    assert (logits.dtype, hidden.dtype, trunk.dtype) == (torch.float32, torch.bfloat16, "bfloat16")
    assert (logits != logits.bfloat16()).any()  # not rounded


def test_fingerprint_follows_weights_not_dtype():
    trunk = tiny_trunk(dtype=torch.bfloat16)
    before = trunk.fingerprint
    assert Trunk(trunk.model.float(), trunk.tokenizer, "again").fingerprint == before
    assert tiny_trunk(seed=1).fingerprint != before
    assert len(before) == 64 and int(before, 16) >= 0


def test_nothing_found_says_what_to_install(monkeypatch, tmp_path):
    def unreachable(*args, **kwargs):
        raise ConnectionError

    monkeypatch.setattr(loading, "_packaged_gguf", lambda: None)
    monkeypatch.setattr(loading, "snapshot_download", unreachable)
    monkeypatch.setattr(loading.HfApi, "model_info", unreachable)
    with pytest.raises(TrunkNotFound, match="requirements-model.txt"):
        load_trunk()
    with pytest.raises(TrunkNotFound, match="no/such-model"):
        load_trunk("no/such-model")
    with pytest.raises(ValueError, match="dtype"):
        load_trunk(dtype="float16")


@pytest.fixture
def converting(monkeypatch, tmp_path):
    """A stand-in for the GGUF conversion; yields (file, how often it ran)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    ran = []
    trunk = tiny_trunk(dtype=torch.bfloat16)

    def convert(path):
        ran.append(path)
        return copy.deepcopy(trunk.model), trunk.tokenizer

    monkeypatch.setattr(loading, "_convert", convert)
    return file, ran


def test_a_gguf_file_is_converted_once(converting):
    file, ran = converting
    first, second = load_trunk(str(file), device="cpu"), load_trunk(str(file), device="cpu")
    assert len(ran) == 1 and first.fingerprint == second.fingerprint
    assert first.tokenizer_hash == second.tokenizer_hash and second.encode("Hi") == first.encode("Hi")
    assert second.name == "model"


def test_a_damaged_converted_copy_is_made_anew(converting):
    file, ran = converting
    load_trunk(str(file), device="cpu")
    weights = next(loading.cache_directory().glob("*/model.safetensors"))
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.warns(UserWarning, match="converting it again"):
        load_trunk(str(file), device="cpu")
    assert len(ran) == 2


def test_a_full_disk_costs_a_warning_only(converting, monkeypatch):
    file, _ = converting

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LlamaForCausalLM, "save_pretrained", full)
    with pytest.warns(UserWarning, match="No space left"):
        trunk = load_trunk(str(file), device="cpu")
    assert trunk.vocab_size == 260 and not list(loading.cache_directory().iterdir())


def test_two_starts_at_once_leave_one_whole_copy(converting):
    file, _ = converting
    trunks: list[Trunk] = []
    threads = [threading.Thread(target=lambda: trunks.append(load_trunk(str(file), device="cpu"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trunks) == 2 and len(list(loading.cache_directory().iterdir())) == 1
    assert load_trunk(str(file), device="cpu").fingerprint == trunks[0].fingerprint


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_angles_of_rotation_are_never_rounded(tmp_path, dtype):
    model = tiny_trunk().model
    exact = model.model.rotary_emb.inv_freq.clone()
    assert not torch.equal(exact, exact.bfloat16().float())
    model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    assert torch.equal(load_trunk(str(tmp_path), dtype=dtype, device="cpu").model.model.rotary_emb.inv_freq, exact)


@pytest.mark.model
def test_default_trunk_on_real_weights():
    load_trunk(dtype="float32")  # converts on the very first run
    began = time.monotonic()
    trunk = load_trunk(dtype="float32")
    assert time.monotonic() - began < 10  # 3 s on an idle machine
    assert (trunk.vocab_size, trunk.context, trunk.end_ids) == (49152, 8192, frozenset({2}))
    turn = [{"role": "user", "content": "Tell me about the sea."}]
    ids = trunk.encode(turn[0]["content"])
    assert ids == trunk.tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False)
    assert trunk.decode(ids).endswith("<|im_start|>assistant\n")
    assert b"".join(trunk.token_bytes(i) for i in trunk.encode("聪明 🙂", raw=True)).decode() == "聪明 🙂"
