"""The atlas: runs go in whole and come out as they were; a broken file is refused by the place that is wrong."""

from __future__ import annotations

import json

import pytest
from recorded import decode_copied, decode_wordy

from mtviz.atlas import LENGTHS, THRESHOLDS, cell_settings, cells, expand, load, pack, stripped
from mtviz.evaluation.atlas import record, same_run
from mtviz.settings import Settings
from mtviz.trace import TraceError, counts, validate

PRESET = {"name": "made", "prompt": "Once", "settings": {"rule": "ratio", "max_new_tokens": 24, "seed": 3}}
BASE = Settings.from_mapping(PRESET["settings"]).to_dict()


@pytest.fixture(scope="module")
def traces():
    """Every cell decoded for itself."""
    return {cell: list(decode_wordy("Once", Settings.from_mapping(cell_settings(BASE, cell))))[-1] for cell in cells()}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return record(PRESET, decode_wordy, tmp_path_factory.mktemp("atlas"), "test", report=lambda line: None)


def test_every_run_comes_out_as_the_trace_that_went_in(traces):
    atlas = json.loads(json.dumps(pack(traces, {})))
    for cell, trace in traces.items():
        again = validate(expand(atlas, cell))
        for made, kept in zip(again["rounds"], stripped(trace)["rounds"], strict=True):
            for one, two in zip(made["drafts"], kept["drafts"], strict=True):
                for field in ("token", "trunk_token", "verdict", "bias_tv", "position", "offset"):
                    assert one[field] == two[field]
                for field in ("draft_prob", "target_prob", "ratio", "gate", "entropy"):
                    assert (one[field] is two[field] is None) or one[field] == pytest.approx(two[field], rel=1.1e-3)
            assert made["cache"] == kept["cache"] and made["start"] == kept["start"]
            assert made["emitted"] == (kept["emitted"] and {**kept["emitted"], "prob": pytest.approx(kept["emitted"]["prob"], rel=1e-3)})
        assert again["output"] == trace["output"] and again["settings"] == trace["settings"]
        assert again["finish_reason"] == trace["finish_reason"]
        assert counts(again)["mean_bias_tv"] == counts(trace)["mean_bias_tv"]


def test_recording_gives_the_runs_that_decoding_every_cell_gives(path, traces):
    atlas = json.loads(load(path))
    assert len(atlas["runs"]) < len(traces)  # equal runs are stored once
    for cell, trace in traces.items():
        again = expand(atlas, cell)
        assert again["output"] == trace["output"] and again["settings"] == trace["settings"]
        assert [[d["verdict"] for d in r["drafts"]] for r in again["rounds"]] == [[d["verdict"] for d in r["drafts"]] for r in trace["rounds"]]
        assert [[d["gate"] for d in r["drafts"]] for r in again["rounds"]] == [
            [None if d["gate"] is None else pytest.approx(d["gate"], rel=1e-3) for d in r["drafts"]] for r in trace["rounds"]]


def test_copies_come_out_as_copies():
    base = Settings(drafter="lookup", max_new_tokens=24).to_dict()
    traces = {cell: list(decode_copied("Once", Settings.from_mapping(cell_settings(base, cell))))[-1] for cell in cells()}
    atlas = json.loads(json.dumps(pack(traces, {})))
    rounds = [round_ for cell in cells() for round_ in expand(atlas, cell)["rounds"]]
    assert {bool(round_["drafts"]) for round_ in rounds} == {True, False}
    assert all(round_.get("copied", False) == bool(round_["drafts"]) for round_ in rounds)


def test_the_exact_text_does_not_move_with_the_length_and_a_loose_one_drifts(path):
    atlas = json.loads(load(path))
    exact = {tuple(token["id"] for token in expand(atlas, (length, None))["output"]["tokens"]) for length in LENGTHS}
    assert len(exact) == 1
    assert counts(expand(atlas, (8, THRESHOLDS[0])))["mean_bias_tv"] > counts(expand(atlas, (8, None)))["mean_bias_tv"] == 0


def test_recording_goes_on_where_it_was_stopped(tmp_path):
    asked = []

    def counting(prompt, settings):
        asked.append(settings)
        if len(asked) == 30:
            raise KeyboardInterrupt
        yield from decode_wordy(prompt, settings)

    with pytest.raises(KeyboardInterrupt):
        record(PRESET, counting, tmp_path, "test", report=lambda line: None)
    assert len(list(tmp_path.iterdir())) == 1  # no half atlas stands where a whole one belongs
    kept = tmp_path / "made.runs.jsonl"
    kept.write_text(kept.read_text(encoding="utf-8") + '{"cells": [[8,', encoding="utf-8")  # cut off while being written
    record(PRESET, counting, tmp_path, "test", report=lambda line: None)
    wanted = [settings for settings in asked if settings.max_new_tokens == 24]
    assert len(wanted) - len(set(wanted)) == 1  # the one that was stopped, and no other, was decoded twice
    assert not kept.exists()


def test_runs_of_other_weights_or_settings_are_not_gone_on_with(tmp_path):
    kept = tmp_path / "made.runs.jsonl"
    kept.write_text('{"model": "another"}\n{"cells": [[1, null]], "trace": 7}\n', encoding="utf-8")
    assert json.loads(load(record(PRESET, decode_wordy, tmp_path, "test", report=lambda line: None)))["runs"]


def test_a_threshold_between_two_judgements_needs_no_run_of_its_own(traces):
    for cell, trace in traces.items():
        for other in same_run(cell, trace):
            assert traces[other]["output"] == trace["output"] and len(traces[other]["rounds"]) == len(trace["rounds"])


def test_what_would_not_come_back_is_not_packed(traces):
    broken = json.loads(json.dumps(traces[4, 0.5]))
    broken["rounds"][1]["drafts"][0]["raw_target_prob"] = 0.123
    with pytest.raises(ValueError, match=r"cell \(4, 0.5\): .rounds\[1\].drafts\[0\].raw_target_prob"):
        pack({**traces, (4, 0.5): broken}, {})


def test_a_run_that_failed_ends_the_recording(tmp_path):
    def failing(prompt, settings):
        yield {"finish_reason": "error", "message": "it broke"}

    with pytest.raises(RuntimeError, match="it broke"):
        record(PRESET, failing, tmp_path, "test")


@pytest.mark.parametrize("settings", [{"temperature": 0.8}, {"top_k": 5}, {"top_p": 0.9}])
def test_a_preset_that_draws_or_cuts_its_laws_has_no_atlas(settings, tmp_path):
    with pytest.raises(ValueError, match="made can have no atlas: "):
        record({**PRESET, "settings": settings}, decode_wordy, tmp_path, "test")


BREAKS = {
    "runs": lambda atlas: atlas["runs"].clear(),
    "ratio": lambda atlas: atlas["ratio"][7].__setitem__(8, 999),
    r"runs\[0\].positions": lambda atlas: atlas["runs"][0]["positions"].__setitem__(0, 5000),
    r"runs\[0\].verify_ms": lambda atlas: atlas["runs"][0]["verify_ms"].pop(),
    r"runs\[0\].accepted": lambda atlas: atlas["runs"][0]["accepted"].__setitem__(0, 8),
    "positions.target_prob": lambda atlas: atlas["positions"]["target_prob"].__setitem__(0, 1.5),
    "positions.trunk": lambda atlas: atlas["positions"]["trunk"].__setitem__(0, 5000),
    "tokens": lambda atlas: atlas["tokens"]["text"].pop(),
    "hack": lambda atlas: atlas.__setitem__("hack", 1),
    "temperature": lambda atlas: atlas["settings"].__setitem__("temperature", 1.0),
    "lengths": lambda atlas: atlas["lengths"].pop(),
}


@pytest.mark.parametrize("place", BREAKS)
def test_a_broken_atlas_is_refused_by_the_place_that_is_wrong(place, path, tmp_path):
    atlas = json.loads(path.read_text(encoding="utf-8"))
    BREAKS[place](atlas)
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(atlas), encoding="utf-8")
    with pytest.raises(TraceError, match=place):
        load(broken)


def test_text_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "broken.json").write_text('{"schema": ', encoding="utf-8")
    with pytest.raises(TraceError, match="not JSON"):
        load(tmp_path / "broken.json")
