"""Verdicts follow from the figures: each claim on figures that bear it out, on figures that do not, and on none."""

import copy
import json
import re

import pytest

from mtviz.service import ASSETS
from mtviz.views.claims import CLAIMS, check, predict

STRINGS = json.loads((ASSETS / "measure" / "strings.json").read_text(encoding="utf-8"))


def length(k, speedup, rolled_back, conditional):
    survival, so_far = [], 1.0
    for share in conditional:
        so_far *= share
        survival.append(so_far)
    return {
        "family": "mtp", "num_draft_tokens": k, "speedup": speedup, "rolled_back": rolled_back, "conditional_acceptance": conditional,
        "survival": survival, "identical": 5, "mean_acceptance_length": 1 + sum(survival),
    }  # fmt: skip


def threshold(tau, speedup, rate, perplexity, tokens, bias, identical=0):
    return {
        "rule": "match" if tau is None else "ratio", "threshold": tau or 0.5, "speedup": speedup, "acceptance_rate": rate, "perplexity": perplexity,
        "mean_acceptance_length": tokens, "mean_bias_tv": bias, "identical": identical,
    }  # fmt: skip


def model(heads, perplexity, speedup, efficiency, unverified=None):
    writing = {"alone": {"perplexity": 2.0}} if heads == 1 else {"verified": {"perplexity": 2.0}, "unverified": {"perplexity": unverified}}
    return {"heads": heads, "quality": {"perplexity": perplexity, "writing": writing}, "speed": {"speedup": speedup}, "efficiency": efficiency}


def heads(family, tokens):
    return {"family": family, "rule": "match", "mean_acceptance_length": tokens}


# Figures under which every claim holds.
GOOD = {
    "lengths": {
        "prompts": 5, "control": {"speedup": 1.01},
        "rows": [length(1, 1.9, 0.2, [0.99]), length(2, 2.8, 0.3, [0.99, 0.98]), length(3, 4.05, 0.35, [0.99, 0.98, 0.97]), length(4, 4.0, 0.4, [0.99, 0.98, 0.97, 0.96])],
    },
    "thresholds": {
        "prompts": 5,
        "rows": [threshold(None, 1.2, 0.4, 2.0, 1.8, 0.0, 5), threshold(1.0, 1.2, 0.4, 2.0, 1.8, 0.0, 5), threshold(0.3, 1.5, 0.7, 4.0, 3.0, 0.3)],
    },
    "pass_cost": {
        "passes": [{"tokens": n, "median": 10 + 0.1 * n} for n in range(1, 10)],
        "drafts": {"mtp": [{"tokens": 1, "median": 0.2}, {"tokens": 2, "median": 0.3}, {"tokens": 3, "median": 0.4}, {"tokens": 4, "median": 1.3}]},
    },
    "footprint": {"rows": [{"family": "none", "parameters": 100}, {"family": "mtp", "parameters": 3}, {"family": "parallel", "parameters": 4}]},
    "heads": {
        "results": [heads("parallel", 1.5), heads("parallel", 1.6), heads("hierarchical", 1.9)],
        "adaptive_against_fixed": [{"rule": "match", "num_draft_tokens": 8, "drafted": 0.6, "mean_acceptance_length": 0.98}],
    },
    "tradeoff": {"rows": [model(1, 4.0, None, 0.25), model(2, 3.8, 1.3, 0.34), model(4, 3.9, 1.5, 0.38, 3.0), model(8, 4.2, 1.6, 0.37, 5.0)]},
}  # fmt: skip


def verdicts(results):
    return {claim["name"]: claim["verdict"] for claim in check(results)}


def altered(path, value):
    results = copy.deepcopy(GOOD)
    *way, last = path
    place = results
    for step in way:
        place = place[step]
    place[last] = value
    return results


def test_at_least_ten_claims_of_the_tutorials_are_checked():
    assert sum(claim.source in ("decoding", "prediction") for claim in CLAIMS) >= 10
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)


def test_figures_under_which_every_claim_holds():
    found = verdicts(GOOD)
    predictable = {row["num_draft_tokens"]: row["predicted"] / row["measured"] for row in predict(GOOD["lengths"], GOOD["pass_cost"])}
    assert set(found.values()) == {"holds"}, (found, predictable)


# For each claim one change of the figures above, and what it then comes to.
CHANGES = [
    ("rolled_back", ["lengths", "rows", 1, "rolled_back"], 0.1, "partly"),
    ("rolled_back", ["lengths", "rows", 3, "rolled_back"], 0.1, "fails"),
    ("neither_too_long_nor_too_short", ["lengths", "rows", 0, "speedup"], 4.6, "partly"),
    ("neither_too_long_nor_too_short", ["lengths", "rows", 3, "speedup"], 4.6, "fails"),
    ("two_to_four_heads", ["lengths", "rows", 3, "speedup"], 4.15, "partly"),
    ("two_to_four_heads", ["lengths", "rows", 3, "speedup"], 6.0, "fails"),
    ("clearly_faster", ["lengths", "rows"], [length(1, 1.1, 0, [0.5])], "partly"),
    ("clearly_faster", ["lengths", "rows"], [length(1, 0.9, 0, [0.5])], "fails"),
    ("times_as_fast", ["lengths", "rows", 3, "speedup"], 1.3, "fails"),
    ("further_is_harder", ["lengths", "rows", 3, "conditional_acceptance"], [0.5, 0.6, 0.4, 0.4], "partly"),
    ("further_is_harder", ["lengths", "rows", 3, "conditional_acceptance"], [0.5, 0.6, 0.7, 0.8], "fails"),
    ("exact_changes_nothing", ["lengths", "rows", 2, "identical"], 4, "partly"),
    ("exact_changes_nothing", ["lengths", "rows", 2, "identical"], 0, "fails"),
    ("predicted", ["lengths", "rows", 2, "speedup"], 3.1, "partly"),
    ("predicted", ["lengths", "rows", 2, "speedup"], 1.0, "fails"),
    ("lower_is_faster", ["thresholds", "rows", 2, "speedup"], 1.1, "partly"),
    ("lower_is_faster", ["thresholds", "rows", 2, "mean_acceptance_length"], 1.7, "fails"),
    ("lower_degrades", ["thresholds", "rows", 2, "perplexity"], 2.05, "partly"),
    ("lower_degrades", ["thresholds", "rows", 2, "perplexity"], 1.9, "fails"),
    ("one_is_exact", ["thresholds", "rows", 1, "identical"], 4, "fails"),
    ("one_is_exact", ["thresholds", "rows", 1, "threshold"], 0.9, "unmeasured"),
    ("accepted_is_faster", ["thresholds", "rows", 2, "speedup"], 1.0, "fails"),
    ("one_pass_for_all", ["pass_cost", "passes", 4, "median"], 14, "partly"),
    ("one_pass_for_all", ["pass_cost", "passes", 4, "median"], 50, "fails"),
    ("little_memory", ["footprint", "rows", 1, "parameters"], 30, "partly"),
    ("little_memory", ["footprint", "rows"], [{"family": "none", "parameters": 10}, {"family": "mtp", "parameters": 3}], "fails"),
    ("earlier_drafts_help", ["heads", "results", 2, "mean_acceptance_length"], 1.2, "fails"),
    ("adaptive_saves", ["heads", "adaptive_against_fixed", 0, "drafted"], 0.9, "partly"),
    ("adaptive_saves", ["heads", "adaptive_against_fixed", 0, "mean_acceptance_length"], 0.3, "fails"),
    ("adaptive_saves", ["heads", "adaptive_against_fixed"], [], "unmeasured"),
    ("better_representations", ["tradeoff", "rows", 0, "quality", "perplexity"], 3.79, "partly"),
    ("better_representations", ["tradeoff", "rows", 0, "quality", "perplexity"], 3.0, "fails"),
    ("better_representations", ["tradeoff", "rows"], [model(2, 3.8, 1.3, 0.3)], "unmeasured"),
    ("more_heads_more_speed", ["tradeoff", "rows", 3, "speed", "speedup"], 1.4, "partly"),
    ("more_heads_more_speed", ["tradeoff", "rows", 3, "speed", "speedup"], 1.0, "fails"),
    ("efficiency_index", ["tradeoff", "rows", 3, "efficiency"], 0.5, "fails"),
    ("unverified_falls_apart", ["tradeoff", "rows", 3, "quality", "writing", "unverified", "perplexity"], 1.5, "fails"),
]


@pytest.mark.parametrize("name, path, value, verdict", CHANGES, ids=[f"{name}-{verdict}" for name, *_, verdict in CHANGES])
def test_a_verdict_turns_with_the_figures(name, path, value, verdict):
    assert verdicts(altered(path, value))[name] == verdict


def test_every_claim_has_a_change_that_turns_it():
    assert {name for name, *_ in CHANGES} == {claim.name for claim in CLAIMS}


@pytest.mark.parametrize("file", GOOD)
def test_without_its_measurement_a_claim_is_not_judged(file):
    left = {name: result for name, result in GOOD.items() if name != file}
    for claim in check(left):
        assert (claim["verdict"] == "unmeasured") == (file in claim["files"]) and (claim["figures"] == {}) == (file in claim["files"])
    assert set(verdicts({}).values()) == set(verdicts({name: {} for name in GOOD}).values()) == {"unmeasured"}


@pytest.mark.parametrize("language", STRINGS)
def test_every_sentence_has_a_place_for_what_it_stands_on(language):
    for claim in check(GOOD):
        said = STRINGS[language][f"claim.{claim['name']}.measured"]
        assert set(re.findall(r"{(\w+)}", said)) == set(claim["figures"]), claim["name"]
        assert STRINGS[language][f"claim.{claim['name']}"]


def test_the_predicted_speedup_is_survival_over_cost():
    (row,) = predict(
        {"rows": [length(2, 1.3, 0.5, [0.6, 0.5])]}, {"passes": [{"tokens": 1, "median": 40.0}, {"tokens": 3, "median": 50.0}], "drafts": {"mtp": [{"tokens": 2, "median": 10.0}]}}
    )
    assert row == {"num_draft_tokens": 2, "measured": 1.3, "predicted": pytest.approx(1.9 / 1.5), "tokens": pytest.approx(1.9), "cost": pytest.approx(1.5)}
    assert predict({"rows": [length(3, 1.3, 0.5, [0.6, 0.5, 0.4])]}, {"passes": [{"tokens": 1, "median": 40.0}], "drafts": {}}) == []
