"""Each preset is kept only as long as its recorded run shows what it is there to show."""

from __future__ import annotations

import json

import pytest

from mtviz.atlas import LENGTHS, cell_settings, expand, load, why_none
from mtviz.service import ASSETS, runs
from mtviz.settings import Settings
from mtviz.text import join
from mtviz.trace import counts, loads

PRESETS = json.loads((ASSETS / "presets.json").read_text(encoding="utf-8"))
RUNS = [(preset, name) for preset in PRESETS for name in runs(preset)]
ATLASES = sorted(path.stem for path in (ASSETS / "atlas").glob("*.json"))


def trace_of(name):
    return loads((ASSETS / "traces" / f"{name}.json").read_text(encoding="utf-8"))


def preset_of(name):
    return next(preset for preset in PRESETS if preset["name"] == name)


def atlas_of(name):
    return json.loads(load(ASSETS / "atlas" / f"{name}.json"))


def verdicts(rounds):
    return [draft["verdict"] for round_ in rounds for draft in round_["drafts"]]


def seconds_per_token(trace):
    emitted = counts(trace)["mean_acceptance_length"] * len(trace["rounds"])
    return (trace["seconds"]["draft"] + trace["seconds"]["verify"]) / emitted


def test_rain_accepts_and_rejects_within_three_rounds():
    assert {"accepted", "rejected"} <= set(verdicts(trace_of("rain")["rounds"][:3]))


def test_boat_is_almost_free_after_the_first_copy():
    full = [round_ for round_ in trace_of("boat")["rounds"] if len(round_["drafts"]) == 8]
    assert sum(verdicts([round_]).count("accepted") >= 6 for round_ in full) > len(full) / 2


def test_counting_accepts_long_runs_on_its_pattern_and_nothing_off_it():
    accepted = [verdicts([round_]).count("accepted") for round_ in trace_of("count")["rounds"]]
    assert max(accepted) > 2 and 0 in accepted
    if "count" in ATLASES:
        short, long = (counts(expand(atlas_of("count"), (length, None)))["mean_acceptance_length"] for length in (2, 8))
        assert long > short


def test_pieces_of_names_are_rejected_more_often_than_what_stands_between_them():
    judged = [
        (draft["verdict"], (draft["token"] if draft["verdict"] == "accepted" else round_["emitted"]["token"])["text"])
        for round_ in trace_of("elves")["rounds"] for draft in round_["drafts"] if draft["verdict"] in ("accepted", "rejected")
    ]
    rejected = {True: [], False: []}
    for verdict, said in judged:
        rejected[any(letter.isalpha() for letter in said)].append(verdict == "rejected")
    names, between = (sum(rejected[kind]) / len(rejected[kind]) for kind in (True, False))
    assert names > 1.4 * between


def test_five_seeds_give_five_texts_of_the_trunk_s_law_when_exact_and_of_another_when_loose():
    told: dict[str, list] = {"ratio": [], "speculative": []}
    for name in runs(preset_of("once")):
        told[trace_of(name)["settings"]["rule"]].append(counts(trace_of(name))["mean_bias_tv"])
    assert len(told["ratio"]) == len(told["speculative"]) == 5
    assert min(told["ratio"]) > 0.02 and max(told["speculative"]) < 1e-6
    assert len({trace_of(name)["output"]["text"] for name in runs(preset_of("once"))}) == 10
    assert max(counts(trace_of(name))["mean_bias_tv"] for name in ("elves", "poem")) < 1e-6


def passes_before(trace):
    """For each token of a run, how many rounds had been made when it stood."""
    made = [0]
    for round_ in trace["rounds"]:
        made += [round_["index"] + 1] * (verdicts([round_]).count("accepted") + (round_["emitted"] is not None))
    return made


def test_copying_and_guessing_each_win_a_stretch_of_the_same_text():
    runs_of = {trace_of(name)["settings"]["drafter"]: trace_of(name) for name in runs(preset_of("code"))}
    assert runs_of["mtp"]["output"] == runs_of["lookup"]["output"]
    heads, lookup = map(passes_before, (runs_of["mtp"], runs_of["lookup"]))
    gains = [(lookup[at + 12] - lookup[at]) - (heads[at + 12] - heads[at]) for at in range(len(heads) - 12)]
    assert max(gains) >= 3 and min(gains) <= -3  # passes that the heads save, or lose, on twelve tokens


def test_loose_is_faster_and_drifts():
    loose, strict, exact = trace_of("loose"), expand(atlas_of("rain"), (8, 1.0)), expand(atlas_of("rain"), (8, None))
    assert counts(loose)["mean_acceptance_length"] > 2 * counts(strict)["mean_acceptance_length"]
    assert counts(loose)["mean_bias_tv"] > 0.1 > counts(strict)["mean_bias_tv"]
    words, meant = loose["output"]["text"].split(), set(exact["output"]["text"].split())
    assert sum(word not in meant for word in words) > len(words) / 3


def test_what_is_refused_is_chosen_again():
    rounds = trace_of("refused")["rounds"]
    again = [r for r in rounds if r["emitted"] and r["emitted"]["kind"] == "recovered" and r["drafts"][verdicts([r]).index("rejected")]["token"] == r["emitted"]["token"]]
    assert again and all(draft["bias_tv"] == 0 for r in again for draft in r["drafts"] if draft["verdict"] == "rejected")


def test_the_sum_is_verified_and_not_true():
    trace = trace_of("sum")
    assert "accepted" in verdicts(trace["rounds"]) and "43" not in trace["output"]["text"].split("\n")[0]
    corrected = [r for r in trace["rounds"] if r["emitted"] and r["emitted"]["kind"] == "recovered" and r["emitted"]["token"]["text"].strip().isdigit()]
    assert any(r["drafts"][verdicts([r]).index("rejected")]["token"] != r["emitted"]["token"] for r in corrected)


def test_the_poem_is_slower_with_drafts_than_a_plain_pass():
    trace = trace_of("poem")
    plain = min(round_["seconds"]["verify"] for round_ in trace["rounds"] if len(round_["drafts"]) <= 1)
    assert seconds_per_token(trace) > plain


@pytest.mark.parametrize("preset, name", RUNS, ids=[name for _, name in RUNS])
def test_a_recorded_run_is_the_preset_s_own(preset, name):
    trace = trace_of(name)
    assert trace["prompt"]["text"] == preset["prompt"]
    assert Settings.from_mapping(trace["settings"]) == runs(preset)[name]
    assert join(token for token in trace["output"]["tokens"] if token["text"] != "<|im_end|>") == trace["output"]["text"]


def test_there_are_at_most_ten_each_in_both_languages():
    assert len(PRESETS) <= 10 and len({preset["name"] for preset in PRESETS}) == len(PRESETS)
    assert all(set(preset["zh"]) == {"title", "teaches"} and all(preset["zh"].values()) for preset in PRESETS)


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if "atlas" in preset], ids=lambda preset: preset["name"])
def test_a_preset_s_atlas_is_of_its_prompt_and_laws(preset):
    owner = next(one for one in PRESETS if one["name"] == preset["atlas"])
    asked = [Settings.from_mapping(one["settings"]) for one in (preset, owner)]
    assert owner["prompt"] == preset["prompt"] and why_none(asked[0]) is None
    assert len({json.dumps(cell_settings(one.to_dict(), (4, 0.5))) for one in asked}) == 1


@pytest.mark.parametrize("name", ATLASES)
def test_a_recorded_atlas_is_small_and_its_exact_text_stands_still(name):
    atlas = atlas_of(name)
    assert name in [preset.get("atlas") for preset in PRESETS]
    assert len({tuple(token["id"] for token in expand(atlas, (length, None))["output"]["tokens"]) for length in LENGTHS}) == 1
    assert (ASSETS / "atlas" / f"{name}.json").stat().st_size < 300_000


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset.get("atlas") in ATLASES], ids=lambda preset: preset["name"])
def test_the_preset_s_run_is_that_of_its_cell(preset):
    trace, atlas = trace_of(preset["name"]), atlas_of(preset["atlas"])
    settings = trace["settings"]
    again = expand(atlas, (settings["num_draft_tokens"], settings["threshold"] if settings["rule"] == "ratio" else None))
    assert trace["model"]["revision"] == atlas["model"]["revision"]
    assert again["output"] == trace["output"] and [verdicts([r]) for r in again["rounds"]] == [verdicts([r]) for r in trace["rounds"]]
