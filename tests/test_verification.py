"""Judging one round of given laws and draws, and the exact bias of each judged position."""

import math
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtviz.decoding import sampling
from mtviz.decoding.bias import acceptance, bias_tv
from mtviz.decoding.verification import recovery_law, verify
from mtviz.settings import RULES, Settings

DRAFT = [0.6, 0.3, 0.1, 0.0]
TARGET = [0.2, 0.3, 0.1, 0.4]
LOSSLESS = ("speculative", "match")


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64)


def one_hot(id_, size=4):
    return [float(i == id_) for i in range(size)]


def judge(rule, tokens, *, draft=None, target=None, trunk_tokens=None, uniforms=None, recovery_uniform=0.0, temperature=1.0, end_ids=(), **settings):
    k = len(tokens)
    draft = tensor([DRAFT] * k if draft is None else draft).reshape(k, 4)
    target = tensor([TARGET] * (k + 1) if target is None else target)
    return verify(
        tokens, draft, target, trunk_tokens or [3] * (k + 1), uniforms or [0.5] * k, recovery_uniform,
        sampling.entropy(target).tolist(), Settings(rule=rule, temperature=temperature, **settings), end_ids,
    )


def random_law(dice, size=10):
    weights = [dice.choice([0.0, dice.random(), dice.random() ** 4]) for _ in range(size - 1)] + [dice.random() + 1e-6]
    return tensor(weights) / sum(weights)


# --- verdicts ----------------------------------------------------------------------------------------------------


def test_ratio_stops_at_the_first_rejection_and_recovers_from_the_target():
    # p/q is 1 for token 1, 1/3 for token 0, 1 for token 2.
    result = judge("ratio", [1, 0, 2], threshold=0.5, recovery_uniform=0.25)
    assert result.verdicts == ["accepted", "rejected", "unjudged"]
    assert (result.accepted, result.kind, result.token) == (1, "recovered", 1)  # p's cumulative: .2 .5 .6 1
    assert result.recovery.tolist() == TARGET
    assert judge("ratio", [1, 0, 2], threshold=0.3).verdicts == ["accepted"] * 3


def test_speculative_recovers_from_the_residual():
    result = judge("speculative", [0], uniforms=[1 / 3 + 1e-9], recovery_uniform=0.999)
    assert (result.verdicts, result.kind, result.token) == (["rejected"], "recovered", 3)
    assert result.recovery.tolist() == [0, 0, 0, 1]  # only token 3 has more under the target
    assert judge("speculative", [0], uniforms=[1 / 3 - 1e-9]).verdicts == ["accepted"]


def test_match_emits_the_trunks_own_token_either_way():
    result = judge("match", [1, 1, 1], trunk_tokens=[1, 2, 0, 3])
    assert (result.verdicts, result.kind, result.token) == (["accepted", "rejected", "unjudged"], "recovered", 2)


def test_typical_judges_by_the_target_alone():
    result = judge("typical", [2, 1, 0], epsilon=0.25, delta=1.0, trunk_tokens=[0, 0, 0, 3])
    assert result.verdicts == ["rejected", "unjudged", "unjudged"]  # p = 0.1 < min(0.25, exp(-1.28) = 0.278)
    assert judge("typical", [1], epsilon=0.25, delta=1.0).verdicts == ["accepted"]


@pytest.mark.parametrize("rule", RULES)
def test_all_accepted_gives_the_trunks_token_after_the_last_as_bonus(rule):
    certain = [one_hot(1)] * 3
    result = judge(rule, [1, 1, 1], draft=certain, target=certain + [TARGET], trunk_tokens=[1, 1, 1, 2])
    assert (result.verdicts, result.accepted, result.kind, result.token) == (["accepted"] * 3, 3, "bonus", 2)
    assert result.recovery is None


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_drafts_is_plain_decoding(rule, temperature):
    result = judge(rule, [], trunk_tokens=[3], temperature=temperature)
    assert (result.verdicts, result.accepted, result.kind, result.token) == ([], 0, "bonus", 3)


@pytest.mark.parametrize("rule", RULES)
def test_at_temperature_0_a_recovered_token_is_the_argmax(rule):
    """Whatever the recovery uniform: nothing is drawn at temperature 0."""
    target = [[0.05, 0.0, 0.35, 0.6]] * 2
    for recovery_uniform in (0.0, 0.3, 0.99):
        result = judge(rule, [1], target=target, trunk_tokens=[3, 3], recovery_uniform=recovery_uniform, temperature=0.0, epsilon=0.5, delta=1.0)
        assert (result.verdicts, result.token) == (["rejected"], 3)
        assert result.recovery.tolist() == one_hot(3)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_field_F02_after_an_accepted_end_token_nothing_is_judged_or_emitted(rule, temperature):
    certain = [one_hot(1), one_hot(2), one_hot(1)]
    result = judge(rule, [1, 2, 1], draft=certain, target=certain + [TARGET], trunk_tokens=[1, 2, 1, 0], temperature=temperature, end_ids={2})
    assert result.verdicts == ["accepted", "accepted", "discarded"]
    assert (result.accepted, result.kind, result.token, result.recovery) == (2, None, None, None)


@pytest.mark.parametrize("rule", RULES)
def test_a_rejected_end_token_ends_nothing(rule):
    result = judge(rule, [2, 1], draft=[one_hot(2), one_hot(1)], target=[one_hot(1), one_hot(1), TARGET], trunk_tokens=[1, 1, 0], end_ids={2})
    assert result.verdicts == ["rejected", "unjudged"]
    assert (result.kind, result.token) == ("recovered", 1)


@pytest.mark.parametrize("rule", ["ratio", "speculative", "match"])
@pytest.mark.parametrize("draft", [DRAFT, one_hot(0)], ids=["soft", "one-hot"])
def test_what_the_target_excludes_is_never_emitted(rule, draft):
    """A target cut by top-k, a drafter that proposes outside of it."""
    target = [[0.0, 0.6, 0.4, 0.0]] * 2
    for seed in range(200):
        dice = Random(seed).random
        trunk_tokens = sampling.draw(tensor(target), [dice(), dice()])
        result = judge(rule, [0], draft=[draft], target=target, trunk_tokens=trunk_tokens, uniforms=[dice()], recovery_uniform=dice())
        assert result.verdicts == ["rejected"] and result.token in (1, 2)


# --- laws and bias -----------------------------------------------------------------------------------------------


def emitted_law(draft_probs, target_probs, settings):
    """The law of the emitted token by the definition, summed token by token over what may be drafted."""
    entropy = float(sampling.entropy(target_probs))
    chances = acceptance(draft_probs, target_probs, entropy, settings).tolist()
    recovery = recovery_law(draft_probs, target_probs, -1, settings).tolist()
    law = [0.0] * len(recovery)
    for drafted, prob in enumerate(draft_probs.tolist()):
        law[drafted] += prob * chances[drafted]
        for token, share in enumerate(recovery):
            law[token] += prob * (1 - chances[drafted]) * share
    return law


@pytest.mark.parametrize("rule", RULES)
def test_bias_is_the_distance_of_the_emitted_law_from_the_target(rule):
    dice = Random(rule)
    for _ in range(100):
        draft_probs, target_probs = random_law(dice), random_law(dice)
        settings = Settings(rule=rule, temperature=1.0, threshold=0.1 + 0.9 * dice.random(), epsilon=0.3, delta=0.8)
        law = emitted_law(draft_probs, target_probs, settings)
        assert math.isclose(sum(law), 1, abs_tol=1e-12)
        distance = 0.5 * sum(abs(e - p) for e, p in zip(law, target_probs.tolist()))
        bias = bias_tv(draft_probs, target_probs, float(sampling.entropy(target_probs)), settings)
        assert bias == pytest.approx(distance, abs=1e-12)
        if rule in LOSSLESS:
            assert bias <= 1e-6


@given(st.sampled_from(LOSSLESS), st.integers(0, 10**6), st.sampled_from(["soft", "one-hot draft", "one-hot target", "equal", "disjoint"]))
def test_lossless_rules_have_no_bias_whatever_the_draft_law(rule, seed, shape):
    dice = Random(seed)
    draft_probs, target_probs = random_law(dice), random_law(dice)
    if shape == "one-hot draft":
        draft_probs = tensor(one_hot(dice.randrange(10), 10))
    elif shape == "one-hot target":
        target_probs = tensor(one_hot(dice.randrange(10), 10))
    elif shape == "equal":
        draft_probs = target_probs
    elif shape == "disjoint":
        draft_probs, target_probs = tensor([0.5, 0.5] + [0] * 8), tensor([0, 0] + [0.125] * 8)
    entropy = float(sampling.entropy(target_probs))
    assert bias_tv(draft_probs, target_probs, entropy, Settings(rule=rule, temperature=1.0)) <= 1e-6


def test_the_ratio_rule_is_biased_by_a_known_amount():
    # Both drafted tokens are accepted, so that what is emitted is the draft's law: TV([.5 .5], [.2 .8]) = 0.3.
    settings = Settings(rule="ratio", threshold=0.3, temperature=1.0)
    assert bias_tv(tensor([0.5, 0.5]), tensor([0.2, 0.8]), 0.0, settings) == pytest.approx(0.3)
    # At 0.9 token 0 (ratio .4) is rejected: e = .5*[0 1] + .5*[.2 .8] = [.1 .9], TV = 0.1.
    settings = Settings(rule="ratio", threshold=0.9, temperature=1.0)
    assert bias_tv(tensor([0.5, 0.5]), tensor([0.2, 0.8]), 0.0, settings) == pytest.approx(0.1)


@pytest.mark.parametrize("rule", RULES)
def test_what_verify_emits_follows_the_emitted_law(rule):
    """The law that the bias reports is the law that the engine draws from."""
    settings = Settings(rule=rule, temperature=1.0, threshold=0.6, epsilon=0.15, delta=1.0)
    draft_probs, target_probs = tensor([0.5, 0.3, 0.15, 0.05]), tensor([0.1, 0.35, 0.15, 0.4])
    target = target_probs.expand(2, -1)
    entropies = sampling.entropy(target).tolist()
    dice, n, seen = Random(5).random, 3000, [0] * 4
    for token in sampling.draw(draft_probs.expand(n, -1), [dice() for _ in range(n)]):
        trunk_tokens = sampling.draw(target, [dice(), dice()])
        result = verify([token], draft_probs[None], target, trunk_tokens, [dice()], dice(), entropies, settings)
        seen[token if result.accepted else result.token] += 1
    law = emitted_law(draft_probs, target_probs, settings)
    assert 0.5 * sum(abs(count / n - prob) for count, prob in zip(seen, law)) < 0.03


def test_a_match_that_cannot_miss_recovers_nothing():
    assert recovery_law(tensor(one_hot(1)), tensor(one_hot(1)), 1, Settings(rule="match", temperature=1.0)).tolist() == [0] * 4
