"""Measuring drafters: figures are those of the Trace, loops apart, and a file that is added to."""

from __future__ import annotations

import json

import pytest
from fakes import ScriptedDrafter, ScriptedTrunk, prefix_law
from test_drafters import shipped, trunk  # noqa: F401
from test_heads import random_heads

from mtviz.decoding.record import decode_trace
from mtviz.evaluation import acceptance
from mtviz.evaluation.acceptance import adaptive_against_fixed, interval, loops, measure
from mtviz.heads import save_heads
from mtviz.settings import Settings
from mtviz.trace import counts

VOCAB = 6
LAW = prefix_law(VOCAB, 5)
SETTINGS = Settings(rule="match", num_draft_tokens=3, max_new_tokens=24)


def test_figures_are_those_of_the_traces():
    prompts = ["one", "two", "three"]
    scripted, drafter = ScriptedTrunk(LAW, VOCAB), ScriptedDrafter(VOCAB, law=LAW)
    row = measure(scripted, drafter, prompts, SETTINGS)
    counted = []
    for prompt in prompts:
        *_, trace = decode_trace(scripted, drafter, prompt, SETTINGS)
        counted.append(counts(trace))
    assert row["rounds"] == sum(c["rounds"] for c in counted) and row["drafted"] == sum(c["drafted"] for c in counted)
    assert row["emitted"] == sum(c["new_tokens"] - 1 for c in counted)  # the prefill's token is in no round
    assert row["mean_acceptance_length"] == row["emitted"] / row["rounds"]
    assert row["by_output"] == [[c["new_tokens"] - 1, c["rounds"], c["drafted"], 0] for c in counted]
    low, high = row["mean_acceptance_length_interval"]
    assert low <= row["mean_acceptance_length"] <= high


def test_an_output_that_loops_is_counted_apart():
    turning = ScriptedTrunk(lambda prefix: [float(id_ == (prefix[-1] + 1) % VOCAB) for id_ in range(VOCAB)], VOCAB)
    row = measure(turning, ScriptedDrafter(VOCAB, law=turning.law), ["x"], Settings(rule="match", num_draft_tokens=3, max_new_tokens=60))
    assert (row["outputs"], row["looping_outputs"], row["rounds"], row["mean_acceptance_length"]) == (1, 1, 0, None)
    assert row["looping_mean_acceptance_length"] > 3 and row["mean_acceptance_length_interval"] is None and row["survival"] == []


@pytest.mark.parametrize("tokens, looping", [([], False), (list(range(12)) * 2, False), (list(range(12)) * 3, True), ([1] * 13, False), ([1] * 14, True)])
def test_what_a_loop_is(tokens, looping):
    assert loops(tokens) is looping


def test_the_interval_is_of_the_prompts():
    assert interval([(4, 2)] * 5) == [2.0, 2.0]
    assert interval([]) is None and interval([(0, 0)]) is None
    low, high = interval([(10, 10)] * 10 + [(30, 10)] * 10)
    assert 1.4 < low < 2 < high < 2.6
    assert interval([(10, 10), (30, 10)]) == interval([(10, 10), (30, 10)])


def test_adaptive_is_held_against_the_same_heads_at_fixed_length():
    def row(family, drafted, emitted, length):
        return {"family": family, "num_draft_tokens": 8, "rule": "match", "temperature": 0.0, "drafted": drafted, "emitted": emitted, "mean_acceptance_length": length}

    assert adaptive_against_fixed([row("mtp", 400, 100, 2.0)]) == []
    (gain,) = adaptive_against_fixed([row("mtp", 400, 100, 2.0), row("parallel", 900, 10, 1.0), row("adaptive", 150, 50, 1.9)])
    assert (gain["drafted"], gain["mean_acceptance_length"], gain["num_draft_tokens"]) == (0.75, pytest.approx(0.95), 8)


@pytest.fixture
def command(monkeypatch, trunk, shipped, tmp_path):  # noqa: F811
    monkeypatch.setattr(acceptance, "load_trunk", lambda *_, **__: trunk)
    heads = tmp_path / "heads"
    heads.mkdir()
    for path in shipped.iterdir():
        (heads / path.name).write_bytes(path.read_bytes())
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\n\n two \n", encoding="utf-8")
    out = tmp_path / "results" / "heads.json"

    def run(*words: str):
        code = acceptance.main(["--prompts", str(prompts), "--heads", str(heads), "--json", str(out), "--max-new-tokens", "8", "--rule", "match", *words])
        assert code == 0
        return json.loads(out.read_text(encoding="utf-8"))

    run.heads, run.prompts, run.out = heads, prompts, out
    return run


def test_the_command_adds_to_its_file_and_measures_nothing_twice(command, trunk, monkeypatch):  # noqa: F811
    first = command("--family", "mtp", "--lengths", "4")
    (row,) = first["results"]
    assert (row["family"], row["num_draft_tokens"], row["outputs"], row["run"]) == ("mtp", 4, 2, 0)
    assert first["prompts"]["count"] == 2 and first["revision"] == trunk.fingerprint
    assert first["runs"][0]["command"].startswith("python -m mtviz heads --prompts prompts.txt") and first["adaptive_against_fixed"] == []

    both = command("--family", "mtp", "--family", "adaptive", "--family", "lookup", "--lengths", "4")
    assert both["results"][-1] == row and [r["family"] for r in both["results"]] == ["adaptive", "lookup", "mtp"]
    assert [r["num_draft_tokens"] for r in both["adaptive_against_fixed"]] == [4]
    assert "heads_revision" not in both["results"][1] and both["results"][0]["length_revision"]

    monkeypatch.setattr(acceptance, "measure", lambda *_: pytest.fail("measured twice"))
    assert command("--family", "mtp", "--family", "adaptive", "--lengths", "4") == both
    monkeypatch.undo()
    monkeypatch.setattr(acceptance, "load_trunk", lambda *_, **__: trunk)
    save_heads(random_heads(trunk, seed=9), command.heads / "mtp.safetensors")
    (anew,) = [r for r in command("--family", "mtp", "--lengths", "4")["results"] if r["family"] == "mtp"]
    assert anew["heads_revision"] != row["heads_revision"] and anew["run"] == 2


def test_replaying_writes_the_loops_rows_under_both_rules_and_keeps_its_texts(command, monkeypatch):
    run = command("--family", "mtp", "--lengths", "1", "3")["results"]
    command.out.unlink()
    asked = ("--family", "mtp", "--family", "hybrid", "--lengths", "1", "3", "--replay", "--rule", "match", "speculative")
    document = command(*asked)
    assert set(document["texts"]) == {"match", "speculative"} and all(len(texts) == 2 for texts in document["texts"].values())
    rows = {(row["family"], row["rule"], row["num_draft_tokens"]): row for row in document["results"]}
    # hybrid, of which sampling cannot be replayed, and mtp
    assert len(rows) == 8 and [row.get("replayed") for row in document["results"]] == [True, None] * 2 + [True] * 4
    for row in run:
        again = rows["mtp", "match", row["num_draft_tokens"]]
        assert again["timed_prompts"] == 1 and again["milliseconds_per_pass"] > 0
        assert {name: again[name] for name in ("by_output", "survival", "rounds")} == {name: row[name] for name in ("by_output", "survival", "rounds")}
    monkeypatch.setattr(acceptance, "_outputs", lambda *_: pytest.fail("decoded again"))
    assert command(*asked)["results"] == document["results"]
    command.out.write_text(json.dumps(document | {"texts": [[1]]}))
    with pytest.raises(SystemExit):
        command(*asked)


def test_what_does_not_fit_is_said_before_anything_is_measured(command, capsys):
    command("--family", "mtp", "--lengths", "1")
    before = command.out.read_bytes()
    for words, said in [(["--family", "nothing"], "nothing not in"), (["--lengths", "9"], "invalid choice: 9"), (["--limit", "1"], "measured with another prompts")]:
        with pytest.raises(SystemExit):
            command(*words)
        assert said in capsys.readouterr().err
    command.out.write_text("{")
    with pytest.raises(SystemExit):
        command("--lengths", "1")
    assert "is no JSON" in capsys.readouterr().err
    command.out.write_bytes(before)
    command.prompts.write_text("\n")
    with pytest.raises(SystemExit):
        command("--lengths", "1")
    assert "holds no prompt" in capsys.readouterr().err
