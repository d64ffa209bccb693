"""Self-generated text: prompts, batches, loops, duplicates, resuming, the file's form."""

import re

import numpy as np
import pytest
import torch
from test_trunk import byte_tokenizer, tiny_trunk
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from mtviz.training import generate
from mtviz.training.corpus import read_corpus
from mtviz.training.generate import Document, cut_loop, distinct, generate_batch, prompts, questions, vocabulary_words, write_documents
from mtviz.trunk import Trunk
from mtviz.trunk.tokens import BYTE_OF

WORDS = ["rain", "stone", "clock", "harbour"]


@pytest.fixture(scope="module")
def trunk():
    """A tiny random trunk whose vocabulary holds a few words."""
    vocab = {character: byte for character, byte in BYTE_OF.items()}
    for piece in ("Ġrain", "Ġstone", "Ġclock", "Ġharbour", "Ġsun", "Ġabc1", "rain", "ĠRain"):
        vocab[piece] = len(vocab)
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>"]
    )
    tokenizer.chat_template = byte_tokenizer().chat_template
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=270, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None, tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    return Trunk(LlamaForCausalLM(config), tokenizer, "tiny")


def test_words_are_plain_and_whole_tokens(trunk):
    assert vocabulary_words(trunk) == sorted(WORDS)
    assert vocabulary_words(tiny_trunk()) == []


def test_prompts_are_wordings_filled_with_words(trunk):
    chosen = prompts(trunk, WORDS, 60, np.random.default_rng(0))
    assert {kind for _, kind in chosen} == {"chat", "raw", "self"} and len({tuple(ids) for ids, _ in chosen}) > 40
    for ids, kind in chosen:
        text = trunk.decode(ids)
        assert kind == "self" or any(word in text.lower() for word in WORDS) or re.search(r"\d+ (plus|by|percent)", text)
        assert not re.search(r"{\d}", text) and text.startswith("<|im_start|>user\n") == (kind != "raw")


def test_the_trunk_asks_in_the_users_place(trunk, monkeypatch):
    opening = trunk.encode("a")[: trunk.encode("a").index(trunk.encode("a", raw=True)[0])]
    asked = questions(trunk, opening, 6, 3)
    assert asked == questions(trunk, opening, 6, 3) != questions(trunk, opening, 6, 4) and len(asked) == 6
    assert questions(trunk, opening, 0, 3) == []
    assert not any("<|im_" in question for question in asked)
    chosen = [trunk.decode(ids) for ids, kind in prompts(trunk, WORDS, 40, np.random.default_rng(5)) if kind == "self"]
    assert len(set(chosen)) > 10 and all(text.endswith("<|im_end|>\n<|im_start|>assistant\n") for text in chosen)
    bare = trunk.encode
    monkeypatch.setattr(trunk, "encode", lambda text, raw=False: bare(text, raw=True))  # a trunk without a chat template
    assert {kind for _, kind in prompts(trunk, WORDS, 60, np.random.default_rng(0))} == {"chat", "raw"}


def test_a_batch_repeats_itself_and_greedy_rows_are_the_trunks_own_text(trunk):
    first = generate_batch(trunk, WORDS, 0, 4, 20, seed=1)
    assert first == generate_batch(trunk, WORDS, 0, 4, 20, seed=1) != generate_batch(trunk, WORDS, 4, 4, 20, seed=1)
    assert [d.temperature for d in first] == [0.0] * 4 and generate_batch(trunk, WORDS, 3, 1, 5, 1)[0].temperature == 1.0
    for document in first:  # left-padded in a batch, and yet as if written alone
        tokens = document.tokens[: document.prompt_len]
        while len(tokens) < len(document.tokens):
            tokens.append(int(trunk.forward(tokens, trunk.new_cache(), last_only=True)[0][0].argmax()))
        assert tokens == document.tokens


def test_documents_stop_at_their_first_end_token(trunk):
    for batch in range(1, 4):
        for document in generate_batch(trunk, WORDS, batch, 8, 40, seed=0):
            assert not trunk.end_ids & set(document.tokens[document.prompt_len : -1])
            assert max(document.tokens) < trunk.vocab_size


def test_loops_are_cut_at_the_second_repeat_of_twelve_tokens():
    phrase = list(range(12))
    assert cut_loop([99, *phrase, 50, *phrase, 51, 52], 1) == [99, *phrase, 50, *phrase]
    assert cut_loop([99, *phrase, *phrase[:-1], 51], 1) == [99, *phrase, *phrase[:-1], 51]
    assert cut_loop([*phrase, *phrase], 12) == [*phrase, *phrase]  # the prompt does not count
    assert cut_loop([7] * 40, 0) == [7] * 24


def test_duplicates_and_empty_answers_are_left_out():
    one, two, empty = Document([1, 2, 3], 1, 0.0, "raw"), Document([1, 2, 4], 1, 0.0, "raw"), Document([1, 9], 1, 0.0, "raw")
    assert distinct([one, two, one._replace(), empty]) == [one, two]


def test_the_command_writes_a_corpus_and_goes_on_after_an_interruption(trunk, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate, "load_trunk", lambda *args, **kwargs: trunk)
    written = []
    plain = generate_batch

    def counted(*args):
        if len(written) == 2 and not resumed:
            raise KeyboardInterrupt
        written.append(args[2])
        return plain(*args)

    monkeypatch.setattr(generate, "generate_batch", counted)
    command = ["--out", str(tmp_path / "a.npz"), "--documents", "10", "--batch", "3", "--max-new-tokens", "12"]
    resumed = False
    with pytest.raises(KeyboardInterrupt):
        generate.main(command)
    assert not (tmp_path / "a.npz").exists()
    resumed = True
    assert generate.main(command) == 0 and written == [0, 1, 2, 3]
    assert "documents" in capsys.readouterr().out
    corpus = read_corpus(tmp_path / "a.npz")
    assert 4 <= len(corpus) <= 12
    with np.load(tmp_path / "a.npz") as arrays:
        assert set(arrays) == {"tokens", "doc_len", "prompt_len", "temp", "kind"}
        assert set(arrays["kind"]) <= {"chat", "raw", "self"} and len(arrays["temp"]) == len(corpus)
    generate.main(["--out", str(tmp_path / "b.npz"), *command[2:]])
    assert read_corpus(tmp_path / "b.npz").tokens.tolist() == corpus.tokens.tolist()


@pytest.mark.parametrize("bad", [["--out", "x.txt"], ["--out", "x.npz", "--documents", "0"], ["--out", "x.npz", "--seed", "-1"]])
def test_arguments_outside_their_bounds_are_named(bad, capsys):
    with pytest.raises(SystemExit):
        generate.main(bad)
    assert "--out must end in .npz" in capsys.readouterr().err


def test_a_trunk_without_words_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generate, "load_trunk", lambda *args, **kwargs: tiny_trunk())
    assert generate.main(["--out", str(tmp_path / "a.npz")]) == 2
    assert "no plain words" in capsys.readouterr().err


def test_an_empty_corpus_can_be_written(tmp_path):
    write_documents([], tmp_path / "a.npz")
    assert generate.read_documents(tmp_path / "a.npz") == []
