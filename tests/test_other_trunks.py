"""Trunks of other architectures: in float32 the text is transformers' own, whatever is drafted; what cannot serve is refused."""

from __future__ import annotations

import json

import pytest
import tiny_models
import torch
from fakes import ScriptedDrafter
from safetensors.torch import load_file, save_file
from test_trunk import byte_tokenizer
from transformers import MistralConfig

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.drafting.files import load_drafters
from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.lookup import LookupDrafter
from mtviz.heads import FAMILIES, HeadsError
from mtviz.settings import Settings
from mtviz.training import cli
from mtviz.trunk import Trunk, TrunkError, load_trunk
from mtviz.trunk.cache import LONGEST_REPLAY, new_cache

PROMPT = "the cat sat on the mat. the cat sat on the mat. the cat"  # several windows long
NEW_TOKENS = 30
ARCHITECTURES = (
    "llama", "llama-tied", "qwen2", "qwen3", "gemma", "gemma2", "gpt2", "mistral", "granite", "cohere", "phi", "mamba2", "qwen3-next", "qwen3.5",
)  # fmt: skip


@pytest.fixture(scope="module", params=ARCHITECTURES)
def trunk(request) -> Trunk:
    return tiny_models.trunk(request.param)


def generated(trunk: Trunk, prompt: list[int]) -> list[int]:
    ids = torch.tensor([prompt])
    output = trunk.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW_TOKENS)
    return output[0, len(prompt) :].tolist()


def decoded(trunk: Trunk, drafter, prompt: list[int]) -> tuple[list[int], set[int]]:
    """The text after the prompt, and how many drafts its rounds accepted."""
    ids: list[int] = []
    accepted: set[int] = set()
    for step in decode(trunk, drafter, prompt, Settings(rule="match", num_draft_tokens=4, max_new_tokens=NEW_TOKENS)):
        if isinstance(step, PrefillStep):
            ids.append(step.token)
        else:
            ids += step.new_tokens
            accepted.add(step.verification.accepted)
    return ids, accepted


def test_the_text_is_generates_with_lookup_and_with_drafts_right_and_wrong(trunk):
    prompt = trunk.encode(PROMPT, raw=True)
    assert len(prompt) > 4 * tiny_models.WINDOW
    wanted = generated(trunk, prompt)
    assert decoded(trunk, LookupDrafter(trunk.vocab_size), prompt)[0] == wanted

    def script(sequence, k: int) -> list[int]:
        """The true tokens, but for one that is wrong: the first, the second, …, and none in every fifth round."""
        done = len(sequence) - len(prompt)
        drafts = [*wanted, *[0] * 8][done : done + k]
        wrong = done % 5
        return [(token + 1) % 250 if i == wrong else token for i, token in enumerate(drafts)]

    ids, accepted = decoded(trunk, ScriptedDrafter(trunk.vocab_size, script=script), prompt)
    assert ids == wanted and len(accepted) > 1  # rolled back by different lengths


def test_logits_are_the_models_own(trunk):
    ids = trunk.encode("a cap, a scale, a bias", raw=True)
    own = trunk.model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    torch.testing.assert_close(trunk.forward(ids, trunk.new_cache())[0], own, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_start_as_the_identity_on_every_trunk_that_they_fit(trunk, family):
    without = {"gemma2", "gpt2", "cohere", "phi", "mamba2", "qwen3-next"}
    if family == "mtp" and trunk.name in without:
        with pytest.raises(HeadsError, match="cannot be built around .*another family"):
            FAMILIES[family](trunk, torch.arange(256))
        return
    heads = FAMILIES[family](trunk, torch.arange(256))
    ids = trunk.encode("who is it?", raw=True)
    _, hidden = trunk.forward(ids, trunk.new_cache())
    state = heads.start()
    heads.observe(state, hidden, [*ids[1:], 5])
    wanted = trunk.unembed(hidden[-1])[:256]
    for i, token in enumerate([None, 7, 9]):
        torch.testing.assert_close(heads.step(state, i, token), wanted, atol=5e-3, rtol=5e-3)


def test_a_recurrent_cache_reads_again_what_was_kept_and_no_more():
    trunk = tiny_models.trunk("qwen3-next")
    cache = trunk.new_cache()
    lengths: list[int] = []
    inner = trunk._read
    trunk._read = lambda ids, states: lengths.append(len(ids)) or inner(ids, states)
    ids = list(range(40))
    trunk.forward(ids[:20], cache)
    trunk.forward(ids[20:24], cache)
    cache.crop(21)
    cache.crop(21)  # nothing to do
    assert cache.length == 21
    again, _ = trunk.forward(ids[21:23], cache)
    assert lengths == [20, 4, 3]  # one token again, and two new ones, in one pass
    torch.testing.assert_close(again, trunk.forward(ids[:23], trunk.new_cache())[0][21:], atol=1e-4, rtol=1e-4)
    for length in (24, 19):
        with pytest.raises(ValueError, match=f"cannot crop a recurrent cache of 23 positions to {length}"):
            cache.crop(length)
    cache.crop(20)
    trunk.forward(ids[20:], cache)
    trunk.forward([5] * (LONGEST_REPLAY + 3), cache)
    cache.crop(cache.length - 1)
    lengths.clear()
    trunk.forward([6], cache)
    assert lengths == [LONGEST_REPLAY + 2, 1]


def test_a_window_that_has_forgotten_is_not_cropped_into_a_wrong_state():
    trunk = tiny_models.trunk("mistral")
    cache = trunk.new_cache()
    trunk.forward(list(range(40)), cache)
    cache.crop(39)
    with pytest.raises(ValueError, match="cannot crop to 37: the sliding window has forgotten"):
        cache.crop(37)


def test_a_cache_that_cannot_be_rolled_back_is_refused_with_the_reason(monkeypatch):
    from transformers.cache_utils import DynamicLayer

    monkeypatch.setattr(DynamicLayer, "is_croppable", False)
    with pytest.raises(ValueError, match="layers that cannot be cut back .DynamicLayer"):
        new_cache(tiny_models.config("qwen2"))
    with pytest.raises(TrunkError, match="qwen2 cannot be decoded in rounds"):
        tiny_models.trunk("qwen2")


def test_a_recurrence_that_forgets_between_passes_is_refused():
    """transformers' Mamba goes on from its state for one token at a time only."""
    with pytest.raises(TrunkError, match="mamba reads several tokens after others as if nothing were before them.*MambaForCausalLM"):
        tiny_models.trunk("mamba")


def test_an_unembedding_that_does_something_unknown_is_refused():
    made = tiny_models.model("qwen2")
    forward = made.forward

    def odd(*args, **given):
        output = forward(*args, **given)
        output.logits = output.logits**2
        return output

    made.forward = odd
    with pytest.raises(TrunkError, match="logits of odd are not its unembedding's"):
        Trunk(made, byte_tokenizer(), "odd")


def test_another_models_tokenizer_is_refused():
    for ids, message in ((520, "520 ids"), (120, "another model's: it has 120 ids, the model 260"), (250, "ends at .258")):
        with pytest.raises(TrunkError, match=message):
            Trunk(tiny_models.model("qwen2"), byte_tokenizer(max(ids, 258)) if ids > 256 else shorter(ids), "mixed")


def shorter(ids: int):
    tokenizer = byte_tokenizer()
    vocab = {piece: index for piece, index in tokenizer.get_vocab().items() if index < ids}
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


# --- directories ------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    return tiny_models.save(tiny_models.model("mistral"), tmp_path / "mistral")


def test_a_directory_is_loaded_without_a_chat_template_and_with_a_padded_vocabulary(tmp_path):
    wide = tiny_models.config("qwen2")
    wide.vocab_size = 320
    from transformers import AutoModelForCausalLM

    path = tiny_models.save(AutoModelForCausalLM.from_config(wide), tmp_path)
    (path / "chat_template.jinja").unlink()
    trunk = load_trunk(str(path), dtype="float32", device="cpu")
    assert trunk.tokenizer.chat_template is None and trunk.directory == path
    assert trunk.encode("ab") == trunk.encode("ab", raw=True) == [97, 98]
    ids, _ = decoded(trunk, LookupDrafter(trunk.vocab_size), trunk.encode(PROMPT))
    assert trunk.vocab_size == 260 and max(ids) < 260


def change_weights(path, change) -> None:
    weights = load_file(path / "model.safetensors")
    change(weights)
    save_file(weights, path / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda path: (path / "config.json").unlink(), "no model directory: it has no config.json"),
        (lambda path: (path / "config.json").write_text("{"), "config.json is damaged"),
        (lambda path: change_weights(path, lambda w: w.pop("model.layers.1.mlp.up_proj.weight")), "mistral lacks 1 tensors, such as model.layers.1.mlp.up_proj.weight"),
        (lambda path: change_weights(path, lambda w: w.update({"model.norm.weight": torch.ones(31)})), "mistral: model.norm.weight has another shape than"),
        (lambda path: (path / "model.safetensors").write_bytes(b"GGUF"), "mistral cannot be loaded"),
        (lambda path: tiny_models.rewrite_config(path, quantization_config={"quant_method": "fp8"}), r"quantised \(fp8\).*original bfloat16 weights"),
        (lambda path: tiny_models.rewrite_config(path, model_type="strange", auto_map={"AutoConfig": "x.X"}), r"program code of its own \(strange\).*MTVIZ_TRUST_REMOTE_CODE=1"),
        (lambda path: tiny_models.rewrite_config(path, model_type="strange"), "mistral cannot be loaded: .*strange"),
    ],
)  # fmt: skip
def test_a_directory_that_cannot_serve_is_refused_by_name(saved, spoil, message):
    spoil(saved)
    with pytest.raises(TrunkError, match="(?s)" + message):
        load_trunk(str(saved), device="cpu")


def test_train_makes_heads_for_such_a_trunk_and_they_serve(saved, tmp_path, monkeypatch):
    import numpy as np

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dice = np.random.default_rng(3)
    lengths = dice.integers(16, 24, 40)
    np.savez(
        tmp_path / "corpus.npz", tokens=dice.integers(0, 250, lengths.sum()).astype(np.uint16), doc_len=lengths.astype(np.int32),
        prompt_len=np.full(40, 3, np.int32),
    )  # fmt: skip
    given = ["--trunk", str(saved), "--corpus", str(tmp_path / "corpus.npz"), "--out", str(tmp_path / "out"), "--steps", "2", "--device", "cpu"]
    assert cli.main(["--family", "mtp", *given]) == 0
    trunk = load_trunk(str(saved), dtype="float32", device="cpu")
    assert isinstance(trunk.model.config, MistralConfig)
    drafters, refused = load_drafters(tmp_path / "out", trunk)
    assert list(drafters) == ["mtp"] and not refused
    prompt = trunk.encode(PROMPT, raw=True)
    assert decoded(trunk, drafters["mtp"](), prompt)[0] == generated(trunk, prompt)
    assert isinstance(drafters["mtp"](), HeadsDrafter) and json.loads((tmp_path / "out/mtp.provenance.json").read_text())["step"] == 2
