"""Cost of a pass, lengths and thresholds, memory: the shape of each result, and what must be true of it on any machine."""

import json

import pytest
from fakes import ScriptedDrafter
from recorded import VOCAB, new_drafter, new_trunk
from test_trunk import tiny_trunk

from mtviz.evaluation import footprint, growth, lab, pass_cost, sweep
from mtviz.evaluation.quality import continuation_loss, perplexity
from mtviz.settings import Settings


def two_at_most():
    return ScriptedDrafter(VOCAB, script=lambda sequence, k: [1, 2][:k])


def test_the_cost_of_a_pass_has_every_length_and_only_what_was_measured():
    trunk = new_trunk(end_ids=())
    *progress, result = pass_cost.measure(trunk, {"scripted": new_drafter, "short": two_at_most}, rounds=3)
    assert [(part["done"], part["of"], part["what"]) for part in progress] == [(0, 3, "passes"), (1, 3, "scripted"), (2, 3, "short")]
    assert [row["tokens"] for row in result["passes"]] == list(range(1, 10))
    assert all(row["rounds"] == 3 and 0 < row["low"] <= row["median"] <= row["high"] for row in result["passes"])
    assert [row["tokens"] for row in result["drafts"]["scripted"]] == list(range(1, 9))
    assert result["context"][0] >= len(trunk.encode(pass_cost.PROMPT))
    assert json.loads(json.dumps(result)) == result


def test_a_drafter_that_stops_early_is_counted_by_what_it_drafted():
    *_, result = pass_cost.measure(new_trunk(end_ids=()), {"short": two_at_most}, rounds=2)
    assert [(row["tokens"], row["rounds"]) for row in result["drafts"]["short"]] == [(1, 2), (2, 14)]


def test_text_that_ends_is_begun_again():
    *_, result = pass_cost.measure(new_trunk(), {}, rounds=40)
    assert all(row["rounds"] == 40 for row in result["passes"])


def test_growth_counts_the_same_rounds_after_every_prompt():
    trunk = new_trunk(end_ids=())
    *progress, result = growth.measure(trunk, {"mtp": new_drafter}, (64, 200), rounds=5)
    assert [(row["family"] == "none", row["rounds"]) for row in result["rows"]] == [(True, 5), (False, 5)] * 2 and len(progress) == 4
    assert [row["context"] == len(trunk.encode(growth.prompt_of(trunk, n), raw=True)) <= n for row, n in zip(result["rows"], (64, 64, 200, 200))] == [True] * 4
    assert all(min(row["draft_ms"], row["verify_ms"], row["record_ms"]) >= 0 and row["tokens_per_second"] > 0 for row in result["rows"])
    short, long = (row["trace_bytes_per_round"] for row in result["rows"][1::2])
    assert 0.8 < short / long < 1.25  # a round says the same of itself, whatever came before
    assert json.loads(json.dumps(result)) == result
    with pytest.raises(ValueError, match="ended after"):
        list(growth.measure(new_trunk(end_ids=range(VOCAB)), {"mtp": new_drafter}, (64,), rounds=5))


def swept(variants, trunk=None):
    *progress, result = sweep.measure(trunk or new_trunk(end_ids=()), new_drafter, variants, ["Once", "Twice", "More"])
    assert [(part["done"], part["of"]) for part in progress] == [(done, 5 * (len(variants) + 2)) for done in range(len(progress))]
    return result


def test_lengths_are_swept_exactly():
    result = swept([Settings(rule="match", num_draft_tokens=k, max_new_tokens=30, drafter="mtp") for k in (1, 2, 4)])
    assert [row["num_draft_tokens"] for row in result["rows"]] == [1, 2, 4]
    for row in result["rows"]:
        assert row["identical"] == 3 and row["perplexity"] == pytest.approx(result["plain"]["perplexity"]) and row["mean_bias_tv"] == 0
        assert len(row["survival"]) == row["num_draft_tokens"] and len(row["speedups"]) == 3
        # every round that is not rolled back gave all of its drafts, and one token more
        assert row["mean_acceptance_length"] == pytest.approx(1 + row["drafted"] * row["acceptance_rate"] / row["rounds"])
        assert row["wasted"] == pytest.approx(1 - row["acceptance_rate"])
    assert result["plain"]["speedups"] == [1.0] * 3 and result["control"]["identical"] == 3
    assert result["plain"]["rolled_back"] == 0 and result["plain"]["acceptance_rate"] is None


def test_a_lower_threshold_accepts_more_at_a_higher_perplexity():
    tight, loose = swept([Settings(rule="ratio", threshold=t, max_new_tokens=60, drafter="mtp") for t in (1.0, 0.01)])["rows"]
    assert loose["acceptance_rate"] > tight["acceptance_rate"] and loose["mean_bias_tv"] > 0
    assert loose["perplexity"] > tight["perplexity"]


def test_perplexity_of_a_continuation_is_the_chain_rule_after_its_prompt():
    trunk = new_trunk()
    prompt, ids = [1, 2, 3], [4, 0, 2]
    losses = [continuation_loss(trunk, [*prompt, *ids[:i]], [id_]) for i, id_ in enumerate(ids)]
    assert perplexity([continuation_loss(trunk, prompt, ids)]) == pytest.approx(perplexity(losses))
    assert continuation_loss(trunk, prompt, []) == (0.0, 0)


def test_prompts_are_spread_over_their_kinds():
    assert sweep._spread(list("abcdefgh"), 4) == list("aceg")
    assert sweep._spread(["a", "b"], 5) == ["a", "b"]
    with pytest.raises(ValueError, match="at least one prompt"):
        sweep._spread([], 3)


def test_the_footprint_of_a_trunk_alone():
    trunk = tiny_trunk()
    row = footprint.measure(trunk, None)
    weights = list(trunk.model.parameters())
    assert row["parameters"] == sum(weight.numel() for weight in weights)
    assert row["file_bytes"] == sum(weight.numel() * weight.element_size() for weight in weights)
    config = trunk.model.config
    values = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim  # keys and values of one token
    assert row["cache_bytes_per_token"] in (2 * values, 4 * values)
    assert row["peak_bytes"] is None or row["peak_bytes"] > row["file_bytes"]


def test_every_measurement_can_be_asked_for(capsys):
    for name in lab.MEASUREMENTS:
        with pytest.raises(SystemExit) as ended:
            lab.main([name, "--help"])
        assert ended.value.code == 0 and name in capsys.readouterr().out
