"""A trunk and its heads trained together: what each prediction is for, decoding as in training, files, stops."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mtviz.decoding.sampling import sampler
from mtviz.drafting.joint import joint_drafters
from mtviz.heads import HeadsError
from mtviz.heads.joint import KINDS, AdaptiveMultiTokenPrediction, HierarchicalPrediction, JointHeads, MultiTokenPrediction
from mtviz.heads.joint_store import decodable, load_joint, save_joint
from mtviz.service import BYTE_MODEL, Service
from mtviz.settings import Settings, SettingsError
from mtviz.training import from_scratch
from mtviz.training.joint import Diverged, JointSchedule, JointTraining
from mtviz.training.text import check_text, corpora_text, plain_text
from mtviz.trunk.bytes import END, byte_llama, byte_tokenizer

SENTENCE = b"the little red boat sails at dawn, and the little grey gull sails after it. "


def tiny(kind: str = "hierarchical", heads: int = 4, seed: int = 0, layers: int = 2) -> MultiTokenPrediction:
    """A random model of width 32 whose blocks are away from their zero start."""
    torch.manual_seed(seed)
    model = KINDS[kind](byte_llama(32, layers, 512), heads)
    with torch.no_grad():
        for weight in model.blocks.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model.eval()


def some_ids(count: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(1, 256, (1, count), generator=torch.Generator().manual_seed(seed))


def training(tmp_path, model=None, text=None, **schedule) -> JointTraining:
    values = {"steps": 12, "batch_bytes": 64, "window": 16, "warmup": 2, **schedule}
    return JointTraining(model or tiny(), text or plain_text(SENTENCE * 20), JointSchedule(**values), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prediction_sees_the_past_and_the_drafts_before_it_and_nothing_more(kind):
    model, ids = tiny(kind), some_ids(9)
    before = model(ids)
    assert before.shape == (1, 4, 9, 256)
    changed = ids.clone()
    changed[0, 6] ^= 1
    same = torch.isclose(model(changed), before, atol=1e-5).all(-1)[0]
    for i in range(4):
        reach = i if kind != "parallel" else 0  # dependent heads read the tokens that were drafted before them
        assert same[i].tolist() == [t + reach < 6 for t in range(9)]


def test_field_F20_labels_are_shifted_once_and_never_twice(tmp_path):
    """Trained on 10, 11, 12, …, 59, 10, …: at token 20 the trunk says 21, the first draft 22, the last 24."""
    text = plain_text(bytes(range(40, 90)) * 30)
    model = tiny(layers=1)
    training(tmp_path, model, text, steps=140, learning_rate=0.02, strategy="plain", cooldown=0.3).run(evaluations=1)
    ids = torch.arange(50, 70)[None]
    said = model.eval()(ids).argmax(-1)[0]
    for i in range(4):
        assert said[i, 4 : 18 - i].tolist() == [x + 1 + i for x in range(54, 68 - i)]


@pytest.mark.parametrize("kind", KINDS)
def test_decoding_sees_what_training_saw(kind):
    trunk, model = decodable(tiny(kind), "tiny")
    heads, ids = JointHeads(model, trunk), some_ids(10)
    wanted = model(ids)
    _, hidden = trunk.forward(ids[0].tolist(), trunk.new_cache())
    unrolled = heads.unroll(ids, hidden[None], 3)
    for t in range(5):
        state = heads.start()
        heads.observe(state, hidden[: t + 1], ids[0, 1 : t + 2].tolist())
        for i in range(3):
            logits = heads.step(state, i, int(ids[0, t + 1 + i]) if i else None)
            torch.testing.assert_close(logits, wanted[0, 1 + i, t], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(heads.unembed(unrolled[i][0, t + i]), logits, atol=1e-4, rtol=1e-4)


def test_a_sequence_may_be_shorter_than_the_heads():
    model = tiny(heads=8)
    for length in (1, 2, 3):
        loss = JointSchedule(strategy="weighted").loss(model(some_ids(length)), some_ids(length))
        loss.backward()
        assert torch.isfinite(loss) and all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("heads", [0, 9, 99, 2.5, True])
def test_heads_out_of_bounds_are_refused_with_the_bounds(heads):
    with pytest.raises(HeadsError, match="heads must be a whole number from 1 to 8"):
        MultiTokenPrediction(byte_llama(32, 1, 64), heads)


def test_one_head_drafts_nothing():
    trunk, model = decodable(tiny(heads=1), "tiny")
    assert joint_drafters(model, trunk) == {}
    with pytest.raises(HeadsError, match="nothing to draft"):
        JointHeads(model, trunk)


def test_the_learned_length_is_trained_and_leaves_the_heads_alone():
    model, ids = tiny("adaptive"), some_ids(24)
    assert isinstance(model, AdaptiveMultiTokenPrediction)
    predictions = model(ids)
    # A law that always names the text's next tokens: every draft agrees with the trunk, and the chances go up.
    sure = torch.full_like(predictions, -8.0)
    for i in range(4):
        sure[0, i, : 23 - i].scatter_(-1, ids[0, 1 + i :, None], 8.0)
    loss = model.extra_loss(sure, ids)
    loss.backward()
    assert all(gradient < 0 for gradient in model.offsets.grad.tolist())
    model.zero_grad()
    model.extra_loss(predictions, ids).backward()
    assert all(p.grad is None for p in model.blocks.parameters()) and model.weights.grad is not None
    trunk, frozen = decodable(model, "tiny")
    drafter = joint_drafters(frozen, trunk)["adaptive"]()
    hidden = trunk.forward([5, 6], trunk.new_cache())[1]
    drafter.observe(hidden, [6, 7])
    proposal = drafter.propose([5, 6, 7], 3, sampler(Settings(), lambda: 0.5))
    assert len(proposal.survivals) >= len(proposal.tokens)


def test_a_run_goes_on_after_an_interruption_as_if_nothing_had_been(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for out in (whole, parts):
        out.mkdir()
    first = training(whole, tiny())
    first.run(evaluations=2)
    left = iter([False] * 5 + [True])
    assert not training(parts, tiny()).run(evaluations=2, stopped=lambda: next(left))
    second = training(parts, tiny(seed=7))
    second.resume()
    assert second.step == 5 and second.run(evaluations=2)
    losses = [[json.loads(line).get("loss") for line in (out / "log.jsonl").read_text().splitlines()] for out in (whole, parts)]
    assert losses[0] == losses[1] and len(losses[0]) == 12
    for name, weight in first.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name


def test_a_diverging_run_stops_and_keeps_the_last_good_weights(tmp_path):
    model = tiny()
    run = training(tmp_path, model, steps=40, learning_rate=1e-3)
    for _ in range(3):
        run.one_step()
    run.save()
    good = {name: weight.clone() for name, weight in model.state_dict().items()}
    with torch.no_grad():
        model.blocks[0].up.weight.fill_(torch.inf)
    with pytest.raises(Diverged, match="step 3"):
        run.run()
    assert all(torch.equal(weight, good[name]) for name, weight in model.state_dict().items())
    assert json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])["event"] == "diverged"


def test_progressive_training_begins_with_the_trunk_and_adds_heads(tmp_path):
    run = training(tmp_path, steps=16, strategy="progressive")
    run.run(evaluations=1)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    active = [line["active"] for line in lines]
    assert active == [1] * 2 + [2] * 2 + [3] * 2 + [4] * 10
    assert [loss is None for loss in lines[0]["losses"]] == [False, True, True, True]
    assert len(lines[-1]["held_losses"]) == 4


def test_field_F22_a_file_is_whole_or_refused_by_name(tmp_path):
    model, path = tiny(), tmp_path / "model.safetensors"
    save_joint(model, path, "mine", "\n\n")
    loaded, described = load_joint(path)
    assert isinstance(loaded, HierarchicalPrediction) and described["name"] == "mine" and described["after_prompt"] == "\n\n"
    for name, weight in model.state_dict().items():
        assert torch.equal(weight.bfloat16().float(), loaded.state_dict()[name]), name
    tensors = load_file(path)
    about = {key: value for key, value in described.items()}

    def refused(match: str, tensors=tensors, **changed) -> None:
        save_file(tensors, tmp_path / "bad.safetensors", {**about, **changed})
        with pytest.raises(HeadsError, match=match):
            load_joint(tmp_path / "bad.safetensors")

    refused("lacks the tensor blocks.1.up.weight", {k: v for k, v in tensors.items() if k != "blocks.1.up.weight"})
    refused("holds NaN", {**tensors, "blocks.0.up.weight": tensors["blocks.0.up.weight"] * torch.nan})
    refused("width must be a whole number from 1 to 512; got '99999'", width="99999")
    refused("layers must be", layers="-1")
    refused("has shape", heads="4", width="64")
    refused("not a byte-level model", kind="pickle")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(HeadsError, match="truncated"):
        load_joint(path)


def test_token_ids_are_the_bytes_and_a_prompt_may_have_an_end():
    text = "聪明 🙂 <|im_end|>\n"
    trunk, _ = decodable(tiny(), "tiny", "\n\n")
    assert trunk.encode(text, raw=True) == list(text.encode()) and trunk.vocab_size == 256
    assert trunk.encode(text) == list((text + "\n\n").encode())
    assert [trunk.token_bytes(i) for i in range(256)] == [bytes([i]) for i in range(256)]
    assert trunk.end_ids == {END}
    assert byte_tokenizer().chat_template is None


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "has 0 bytes; training takes 1,000 to 1,000,000 bytes"),
        (b"x", "has 1 bytes"),
        (b"one line only", "a page of text or more"),
        (b"a" * 2_000_000, "has 2,000,000 bytes; at most 1,000,000"),
        (b"text" * 500 + b"\xff\xfe" + b"text" * 500, "is not UTF-8 text: byte 2,000"),
        (b"text" * 500 + b"\0" + b"text" * 500, "is binary: byte 2,000 is zero"),
    ],
)
def test_text_that_cannot_be_trained_on_is_refused_with_the_bounds(data, words):
    with pytest.raises(SettingsError, match="^text: ") as refusal:
        check_text(data, most=1_000_000)
    assert words in str(refusal.value)


def test_every_twentieth_piece_is_held_out_and_the_rest_is_trained_on():
    data = np.random.default_rng(0).integers(65, 91, 9000).astype(np.uint8).tobytes()
    text = plain_text(data)
    assert len(text.train) + len(text.held) == 9000
    assert text.held.tobytes() == b"".join(text.held_documents) and text.held[:40].tobytes() not in text.train.tobytes()


def test_a_corpus_becomes_instruction_blank_line_answer(tmp_path):
    chat = "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\nHi!<|im_end|>\n<|im_start|>user\nMore"
    documents = [chat, "Plain text."] * 20
    tokens = np.concatenate([np.frombuffer(document.encode(), np.uint8) for document in documents]).astype(np.uint16)
    lengths = np.array([len(document) for document in documents], np.int32)
    np.savez(tmp_path / "corpus.npz", tokens=tokens, doc_len=lengths, prompt_len=np.ones(40, np.int32))
    text = corpora_text([tmp_path / "corpus.npz"], lambda ids: bytes(ids).decode())
    assert set(text.train.tobytes().strip(b"\0").split(b"\0")) == {b"Say hi.\n\nHi!", b"Plain text."}
    assert text.documents == 40 and len(text.held_documents) == 2


@pytest.mark.parametrize(
    "words, message",
    [
        (["--heads", "0"], "heads: must be a whole number from 1 to 8; got 0"),
        (["--heads", "99"], "heads: must be a whole number from 1 to 8; got 99"),
        (["--minutes", "0"], "minutes: must be a number above 0"),
        (["--width", "33"], "width: must be a multiple of 32"),
    ],
)
def test_the_command_names_the_field_and_its_bounds(tmp_path, capsys, words, message):
    (tmp_path / "text.txt").write_bytes(SENTENCE * 20)
    assert from_scratch.main(["--text", str(tmp_path / "text.txt"), "--out", str(tmp_path / "out"), *words]) == 2
    assert message in capsys.readouterr().err


def test_the_command_says_that_a_run_diverged_and_saves_the_last_good_weights(tmp_path, capsys, monkeypatch):
    (tmp_path / "text.txt").write_bytes(SENTENCE * 20)
    words = ["--text", str(tmp_path / "text.txt"), "--out", str(tmp_path / "out"), "--steps", "30", "--width", "32", "--layers", "1"]
    step = JointTraining.one_step

    def diverging(run):
        if run.step == 22:
            raise Diverged("the loss was nan at step 22")
        return step(run)

    monkeypatch.setattr(JointTraining, "one_step", diverging)
    assert from_scratch.main(words) == 3
    assert "the loss was nan at step 22; the weights of step 20 are kept" in capsys.readouterr().err
    assert all(weight.isfinite().all() for weight in load_joint(tmp_path / "out" / "model.safetensors")[0].parameters())
    events = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events if "event" in event] == ["start", "diverged", "end"] and not events[-1]["finished"]


def test_the_command_trains_saves_and_says_how_to_make_it_again(tmp_path):
    (tmp_path / "text.txt").write_bytes(SENTENCE * 20)
    command = ["--text", str(tmp_path / "text.txt"), "--out", str(tmp_path / "out"), "--name", "gull"]
    command += ["--steps", "4", "--width", "32", "--layers", "1"]
    assert from_scratch.main(command) == 0
    model, described = load_joint(tmp_path / "out" / "model.safetensors")
    assert (model.heads, described["name"], described["after_prompt"]) == (4, "gull", "")
    known = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert known["step"] == 4 and known["model"]["heads"] == 4 and len(known["held_out"]["held_losses"]) == 4
    events = [json.loads(line).get("event") for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert events == ["start", None, None, None, None, "end"]
    assert from_scratch.main(command) == 2  # there is a run in --out already


def test_the_shipped_model_decodes_without_any_other_and_verified_is_what_it_writes_alone():
    assert BYTE_MODEL.stat().st_size <= 10_000_000
    service = Service(model="/nothing")
    texts = []
    for drafter, length in (("hierarchical", 3), ("none", 0)):
        settings = Settings(model="bytes", drafter=drafter, rule="match", num_draft_tokens=length, max_new_tokens=40)
        *_, trace = service.decode("Write a poem about the sea.", settings)
        texts.append([token["id"] for token in trace["output"]["tokens"]])
        assert [token["id"] for token in trace["prompt"]["tokens"]][-3:] == list(b".\n\n")
        assert trace["model"]["trunk"] == "bytes" and trace["model"]["family"] == drafter and trace["settings"]["model"] == "bytes"
    assert texts[0] == texts[1] and len(texts[0]) == 40
