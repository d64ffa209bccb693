"""The benchmark measures the same thing for every way, warm, and starts afresh on every run."""

import json
import time

import pytest
import torch
from test_heads import random_heads
from test_trunk import tiny_trunk

from mtviz.evaluation import benchmark
from mtviz.evaluation.benchmark import Run, main, measure, summarise, table
from mtviz.evaluation.machine import PeakMemory, memory_bandwidth
from mtviz.evaluation.ways import Output, Way, mtviz_way, mtviz_ways, transformers_ways
from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.lookup import LookupDrafter

PROMPTS = ["one two three one two three one", "aaaa", "What rhymes with bench?"]


def sleeper(name: str, milliseconds: float, first: float = 0.0) -> Way:
    """A way that takes a known time, and longer the first time."""
    extra = [first / 1e3]

    def run(prompt: str, max_new_tokens: int) -> Output:
        time.sleep(milliseconds / 1e3 + (extra.pop() if extra else 0))
        return Output([1, 2, 3], 2)

    return Way(name, run)


def no_gap(prompt: int, ids) -> float:
    return 0.0


def test_field_F24_a_against_a_is_one_and_cold_runs_do_not_count():
    runs, failed = measure([sleeper("a", 30), sleeper("also a", 30, first=900), sleeper("half as fast", 60)], PROMPTS * 3, 3)
    rows = {row["way"]: row for row in summarise(runs, "a", 0.001, no_gap)}
    assert not failed
    assert 0.9 < rows["also a"]["ratio"] < 1.1
    assert 0.4 < rows["half as fast"]["ratio"] < 0.6
    assert rows["a"]["ratio"] == 1 and rows["a"]["mean_acceptance_length"] == 1
    assert rows["a"]["of_limit"] < 0.11  # three passes of 1 ms in a little over 30


def test_the_order_rotates():
    calls = []
    ways = [Way(name, lambda prompt, n, name=name: calls.append(name) or Output([1, 2], 1)) for name in "abc"]
    measure(ways, PROMPTS, 2)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab"


def test_a_way_that_cannot_run_is_reported_and_costs_the_others_nothing():
    def broken(prompt, max_new_tokens):
        raise RuntimeError("no such kernel")

    runs, failed = measure([sleeper("a", 1), Way("broken", broken)], PROMPTS, 3)
    assert failed == {"broken": "RuntimeError: no such kernel"} and list(runs) == ["a"]
    assert "| broken | failed: RuntimeError: no such kernel |" in table(summarise(runs, "a", 0.001, no_gap), failed)


def test_an_interrupted_run_keeps_whole_prompts():
    left = [7]

    def run(prompt, max_new_tokens):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return Output([1, 2], 1)

    runs, _ = measure([Way("a", run), Way("b", run)], PROMPTS, 2)  # two to warm up, then the fifth of six is cut short
    assert [len(own) for own in runs.values()] == [2, 2]


def test_divergence_is_found_where_it_begins():
    asked = []

    def gap(prompt, ids):
        asked.append((prompt, list(ids)))
        return 0.125

    def runs(*outputs):
        return [Run(Output(ids, len(ids) - 1), 1.0, None) for ids in outputs]

    rows = summarise({"a": runs([1, 2, 3], [4, 5, 6]), "b": runs([1, 2, 3], [4, 9, 6]), "short": runs([1, 2], [4, 5, 6])}, "a", 0.1, gap)
    assert [row["identical"] for row in rows] == [2, 1, 1]
    assert rows[1]["divergences"] == [{"prompt": 1, "token": 1, "top_2_gap": 0.125}]
    assert rows[2]["divergences"] == [{"prompt": 0, "token": 2, "top_2_gap": 0.125}]
    assert asked == [(1, [4]), (0, [1, 2])]
    assert "1/2, first at token 1, gap 0.125" in table(rows, {})


def test_every_way_writes_what_generate_writes():
    trunk = tiny_trunk()
    plain, static, lookup = transformers_ways(trunk, 4)  # the compiled one takes a compiler and minutes
    for prompt in PROMPTS:
        wanted = plain.run(prompt, 20)
        assert wanted.passes == len(wanted.ids) - 1
        assert lookup.run(prompt, 20).ids == wanted.ids
        ways = list(mtviz_ways(trunk, {"mtp": lambda: HeadsDrafter(random_heads(trunk))}, [2, 4]))
        assert [way.name for way in ways[1:]] == ["mtviz, lookup 2", "mtviz, lookup 4", "mtviz, mtp 2", "mtviz, mtp 4"]
        for way in ways:
            assert way.run(prompt, 20).ids == wanted.ids, way.name


def test_field_F26_recording_changes_no_token_and_runs_start_afresh():
    trunk = tiny_trunk()
    way = mtviz_way("lookup", trunk, lambda: LookupDrafter(trunk.vocab_size), 4)
    recorded = mtviz_way("recorded", trunk, lambda: LookupDrafter(trunk.vocab_size), 4, recorded=True)
    first = way.run(PROMPTS[0], 40)
    assert way.run(PROMPTS[0], 40) == first == recorded.run(PROMPTS[0], 40)


def test_field_F24_the_cpu_path_calls_no_cuda(monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("CUDA was called")

    for name in ("synchronize", "reset_peak_memory_stats", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, never)
    assert memory_bandwidth(reads=2) > 1e8
    memory = PeakMemory("cpu")
    memory.restart()
    peak = memory.read()
    assert peak is None or peak > 2**20


def test_command(monkeypatch, tmp_path, capsys):
    trunk = tiny_trunk()
    monkeypatch.setattr(benchmark, "load_trunk", lambda name, dtype: trunk)
    monkeypatch.setattr(benchmark, "transformers_ways", lambda trunk, k: list(transformers_ways(trunk, k))[::2])
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("\n".join(PROMPTS), encoding="utf-8")
    file = tmp_path / "result.json"
    options = ["--prompts", str(prompts), "--max-new-tokens", "8", "--heads", str(tmp_path), "--json", str(file)]
    assert main(options) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result == json.loads(file.read_text())
    assert [row["way"] for row in result["rows"]] == ["generate", "generate, prompt lookup 4", "mtviz, no drafter", "mtviz, lookup 4"]
    assert all(row["identical"] == 3 for row in result["rows"])
    (tmp_path / "mtp.safetensors").write_bytes(b"damaged")
    assert main(options) == 2 and "mtp.safetensors" in capsys.readouterr().err
    assert result["seconds_per_pass_limit"] > 0


def test_bad_input_is_named(tmp_path, capsys):
    assert main(["--prompts", str(tmp_path / "none.txt")]) == 2
    (tmp_path / "empty.txt").write_text("\n\n")
    assert main(["--prompts", str(tmp_path / "empty.txt")]) == 2
    assert "holds no prompt" in capsys.readouterr().err
    for options in (["--max-new-tokens", "0"], ["--num-draft-tokens", "9"]):
        with pytest.raises(SystemExit):
            main(options)
