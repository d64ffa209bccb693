"""The tutorial's functions on jointly trained models: both ways to generate, honest speed, weighted quality, memory."""

import json
import math

import pytest
import torch
from test_joint import SENTENCE, tiny

import mtviz.evaluation.tutorial as tutorial
from mtviz.evaluation import lab, tutorial_cli
from mtviz.evaluation.multi_token import generate_multi_token
from mtviz.heads.joint_store import decodable, save_joint
from mtviz.settings import SettingsError

PROMPT = "The little red boat"


@pytest.fixture(scope="module")
def model():
    return tiny(seed=3)


def ids_of(trace):
    return [token["id"] for token in trace["output"]["tokens"]]


@torch.inference_mode()
def greedy(model, count):
    """One byte at a time, with no engine."""
    ids = list(PROMPT.encode())
    for _ in range(count):
        ids.append(int(model(torch.tensor([ids]), 1)[0, 0, -1].argmax()))
    return ids[-count:]


@torch.inference_mode()
def all_heads(model, count):
    """What every head says, taken as it comes: the trunk's token, then each draft given those before it."""
    ids = list(PROMPT.encode())
    wanted = len(ids) + count
    while len(ids) < wanted:
        at, length = len(ids) - 1, len(ids)
        for i in range(min(model.heads, wanted - length)):
            ids.append(int(model(torch.tensor([ids]))[0, i, at].argmax()))
    return ids[-count:]


def test_verified_is_what_the_trunk_writes_alone_and_the_budget_is_of_new_bytes(model):
    trace = generate_multi_token(model, PROMPT, 23)
    assert ids_of(trace) == greedy(model, 23) and len(trace["prompt"]["tokens"]) == len(PROMPT)
    assert trace["settings"]["rule"] == "match" and trace["model"]["family"] == "hierarchical"


def test_unverified_is_every_heads_token_as_it_comes(model):
    trace = generate_multi_token(model, PROMPT, 25, verified=False)
    assert ids_of(trace) == all_heads(model, 25) != greedy(model, 25)
    verdicts = [draft["verdict"] for round_ in trace["rounds"] for draft in round_["drafts"]]
    assert set(verdicts) == {"accepted"} and len(trace["rounds"]) == 6  # the prefill's byte, then four a pass


def test_generating_after_more_training_uses_the_new_weights(model):
    changed = tiny(seed=4)
    before = ids_of(generate_multi_token(changed, PROMPT, 8))
    with torch.no_grad():
        for weight in changed.model.parameters():
            weight.copy_(torch.randn_like(weight))
    assert ids_of(generate_multi_token(changed, PROMPT, 8)) == greedy(changed, 8) != before


def test_a_blank_prompt_is_refused(model):
    with pytest.raises(SettingsError, match="prompt"):
        generate_multi_token(model, "  ", 8)


def test_field_F26_every_run_starts_afresh_in_turn_and_the_first_does_not_count(model, monkeypatch):
    order = []
    real = tutorial._timed

    def scripted(trunk, drafter, prompt, settings, limit=None):
        """Real decoding on a clock of its own: alone takes 3 s and with heads 2 s, but the first run of each is slow."""
        ids, verdicts, _ = real(trunk, drafter, prompt, settings, limit)
        order.append((settings.num_draft_tokens, prompt, limit))
        return ids, verdicts, 500.0 if limit else 2.0 if drafter else 3.0

    monkeypatch.setattr(tutorial, "_timed", scripted)
    found = tutorial.evaluate_speedup(model, [PROMPT, "dawn", "gull"], max_new_tokens=12, repeats=2)
    assert (found["speedup"], found["control"], found["speedup_quartiles"]) == (1.5, 1.0, [1.5, 1.5])
    assert (found["identical"], found["prompts"]) == (3, 3)
    assert found["bytes_per_second"] == {"alone": 4.0, "heads": 6.0}
    assert [limit for *_, limit in order[:3]] == [tutorial.WARM_UP_BYTES] * 3 and len(order) == 3 + 3 * 3 * 2
    lanes = [[length for length, *_ in order[at : at + 3]] for at in range(3, len(order), 3)]
    assert lanes[:3] == [[0, 3, 0], [3, 0, 0], [0, 0, 3]]  # none is always first
    again = tutorial.evaluate_speedup(model, [PROMPT, "dawn", "gull"], max_new_tokens=12, repeats=1)
    assert again["survival"] == found["survival"] and again["bytes_per_round"] == found["bytes_per_round"]


def test_bytes_per_round_and_survival_are_those_of_the_trace(model):
    found = tutorial.evaluate_speedup(model, [PROMPT], max_new_tokens=20, repeats=1)
    rounds = generate_multi_token(model, PROMPT, 20)["rounds"]
    assert found["bytes_per_round"] == pytest.approx(19 / len(rounds))
    first = [round_["drafts"][0]["verdict"] == "accepted" for round_ in rounds if round_["drafts"]]
    assert found["survival"][0] == pytest.approx(sum(first) / len(first))
    assert tutorial.evaluate_speedup(tiny(heads=1), [PROMPT], max_new_tokens=4, repeats=1)["speedup"] is None


def test_field_F25_perplexity_weighs_bytes_not_documents(model):
    long, short = SENTENCE * 3, b"gull"
    found = tutorial.evaluate_quality(model, [long, short], continuations=1)
    trunk, _ = decodable(model, "tiny")
    losses = []
    for document in (long, short):
        ids = [0, *document]
        laws = trunk.forward(ids[:-1], trunk.new_cache())[0].double().log_softmax(-1)
        losses += [-float(law[byte]) for law, byte in zip(laws, document)]
    assert found["bytes"] == len(losses) == len(long) + len(short)
    assert found["perplexity"] == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(math.log2(found["perplexity"]))


def test_bleu_is_of_the_continuation():
    pytest.importorskip("sacrebleu")
    assert tutorial.bleu(["abcdef"], ["abcdef"]) == pytest.approx(100)
    assert tutorial.bleu(["abcdefgh"], ["abcdxyzh"]) < 60


def test_memory_adds_up(model):
    found = tutorial.analyze_memory_usage(model, "The ", max_new_tokens=8)
    trunk = sum(p.numel() for p in model.model.parameters())
    assert found["parameters"] == {"trunk": trunk, "heads": sum(p.numel() for p in model.parameters()) - trunk}
    assert found["weight_bytes"]["trunk"] == 4 * trunk
    assert found["cache_bytes_per_token"] == 2 * 2 * 32 * 4  # two layers of keys and values of width 32 in float32
    assert found["cache_bytes"] == 11 * found["cache_bytes_per_token"]


def test_the_tradeoff_command_trains_once_and_weighs_each(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tutorial, "CONTINUATION_BYTES", 12)
    (tmp_path / "text.txt").write_bytes(SENTENCE * 60)
    words = ["tradeoff", "--max-new-tokens", "12", "--text", str(tmp_path / "text.txt"), "--heads", "1", "2", "--minutes", "0.002", "--prompts", "1", "--documents", "1"]
    words += ["--out", str(tmp_path / "runs"), "--json", str(tmp_path / "tradeoff.json")]
    assert lab.main(words) == 0
    found = json.loads((tmp_path / "tradeoff.json").read_text())
    one, two = found["rows"]
    assert (one["heads"], two["heads"]) == (1, 2) and one["perplexity_ratio"] == 1
    assert two["efficiency"] == pytest.approx(two["speed"]["speedup"] / two["quality"]["perplexity"])
    assert found["provenance"]["command"].startswith("python -m mtviz lab tradeoff") and str(tmp_path) not in json.dumps(found)
    assert one["training"]["model"]["heads"] == 1 and all(len(point["held_losses"]) == 2 for point in two["curve"])
    weights = (tmp_path / "runs" / "heads-2" / "model.safetensors").stat().st_mtime_ns
    assert lab.main(words) == 0 and (tmp_path / "runs" / "heads-2" / "model.safetensors").stat().st_mtime_ns == weights


def test_a_laboratory_command_says_what_is_wrong(tmp_path, capsys):
    save_joint(tiny(), tmp_path / "model.safetensors", "tiny")
    (tmp_path / "short.txt").write_bytes(b"short")
    assert tutorial_cli.speedup(["--text", str(tmp_path / "short.txt"), "--model", str(tmp_path / "model.safetensors")]) == 2
    assert "text: has 5 bytes" in capsys.readouterr().err
    assert tutorial_cli.memory(["--model", str(tmp_path / "none.safetensors")]) == 2
    assert "no heads file" in capsys.readouterr().err
