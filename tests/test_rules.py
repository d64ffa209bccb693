"""The four rules on scalars, and the same rules over whole laws in the bias."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mtviz import rules
from mtviz.decoding.bias import acceptance
from mtviz.settings import RULES, Settings

PROB = st.one_of(st.sampled_from([0.0, 1e-12, 0.1, 0.25, 0.3, 0.5, 1.0]), st.floats(0, 1))
UNIT = st.floats(0, 1, exclude_max=True)
THRESHOLD = st.floats(0, 1, exclude_min=True)


def accepts(rule, **given):
    numbers = dict(token=0, trunk_token=0, draft_prob=0.5, target_prob=0.5, u=0.5, entropy=1.0, threshold=0.5, epsilon=0.09, delta=0.3, temperature=1.0)
    return rules.accepts(rule, **numbers | given)


def test_ratio_is_the_tutorials():
    assert accepts("ratio", draft_prob=0.5, target_prob=0.31, threshold=0.6) is True
    assert accepts("ratio", draft_prob=0.5, target_prob=0.29, threshold=0.6) is False
    assert accepts("ratio", draft_prob=0.5, target_prob=0.25, threshold=0.5) is True  # at the gate
    assert accepts("ratio", draft_prob=0.0, target_prob=1e-9) is True
    assert accepts("ratio", draft_prob=0.0, target_prob=0.0) is False
    assert accepts("ratio", draft_prob=-0.1, target_prob=0.0) is False


def test_speculative_accepts_with_the_ratio_as_its_probability():
    assert accepts("speculative", draft_prob=0.5, target_prob=0.25, u=0.499) is True
    assert accepts("speculative", draft_prob=0.5, target_prob=0.25, u=0.5) is False  # u < p/q, not <=
    assert accepts("speculative", draft_prob=0.2, target_prob=0.3, u=math.nextafter(1, 0)) is True
    assert accepts("speculative", draft_prob=0.5, target_prob=0.0, u=0.0) is False
    assert accepts("speculative", draft_prob=0.0, target_prob=0.1, u=0.99) is True
    assert accepts("speculative", draft_prob=0.0, target_prob=0.0, u=0.0) is False


def test_match_wants_the_trunks_own_token():
    assert accepts("match", token=3, trunk_token=3, target_prob=0.0) is True
    assert accepts("match", token=3, trunk_token=4, target_prob=1.0, draft_prob=0.1) is False


def test_typical_asks_less_where_the_trunk_is_unsure():
    assert accepts("typical", target_prob=0.09, entropy=0.0) is True  # min(0.09, 0.3) = epsilon
    assert accepts("typical", target_prob=0.0899, entropy=0.0) is False
    assert accepts("typical", target_prob=0.3 * math.exp(-3), entropy=3.0) is True  # delta * exp(-entropy) = 0.0149
    assert accepts("typical", target_prob=0.0149, entropy=3.0) is False


@pytest.mark.parametrize("token, trunk_token", [(2, 2), (2, 3)])
def test_at_temperature_0_speculative_is_match(token, trunk_token):
    for target_prob, draft_prob, u in [(0.0, 1.0, 0.9), (1.0, 0.1, 0.0), (0.3, 0.3, 0.5)]:
        numbers = dict(token=token, trunk_token=trunk_token, target_prob=target_prob, draft_prob=draft_prob, u=u, temperature=0.0)
        assert accepts("speculative", **numbers) is accepts("match", **numbers) is (token == trunk_token)


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="'vote'"):
        accepts("vote")
    with pytest.raises(ValueError, match="'vote'"):
        rules.gate("vote", draft_prob=0.5, u=0.5, entropy=1.0, threshold=0.5, epsilon=0.09, delta=0.3, temperature=1.0)


@given(st.sampled_from(RULES), PROB, PROB, UNIT, st.floats(0, 12), THRESHOLD, st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.0, 0.7, 1.0]))
def test_a_token_is_accepted_exactly_where_it_reaches_its_gate(rule, draft_prob, target_prob, u, entropy, threshold, epsilon, delta, temperature):
    numbers = dict(draft_prob=draft_prob, u=u, entropy=entropy, threshold=threshold, epsilon=epsilon, delta=delta, temperature=temperature)
    bar = rules.gate(rule, **numbers)
    if rule == "match" or (rule == "speculative" and temperature == 0):
        assert bar is None
        return
    accepted = rules.accepts(rule, token=1, trunk_token=2, target_prob=target_prob, **numbers)
    assert 0 <= bar <= 1
    if target_prob > bar * (1 + 1e-12):
        assert accepted
    elif target_prob < bar * (1 - 1e-12):
        assert not accepted
    elif bar == 0:  # a gate on the floor: only `typical` with a bar set to 0 lets probability 0 through
        assert accepted is (rule == "typical")


@given(st.sampled_from(RULES), st.lists(st.tuples(PROB, PROB), min_size=2, max_size=8), st.floats(0, 6), THRESHOLD, st.floats(0, 1), st.floats(0, 1))
def test_the_vector_form_agrees_with_the_scalar_form(rule, pairs, entropy, threshold, epsilon, delta):
    settings = Settings(rule=rule, temperature=1.0, threshold=threshold, epsilon=epsilon, delta=delta)
    draft_probs, target_probs = (torch.tensor(column, dtype=torch.float64) for column in zip(*pairs))
    chances = acceptance(draft_probs, target_probs, entropy, settings).tolist()
    for (draft_prob, target_prob), chance in zip(pairs, chances):
        if rule == "match":
            assert chance == target_prob
            continue

        def judged(u):
            return accepts(rule, draft_prob=draft_prob, target_prob=target_prob, u=u, entropy=entropy, threshold=threshold, epsilon=epsilon, delta=delta)

        assert 0 <= chance <= 1
        if chance > 0:  # accepted for every u below the chance, for none at it or above
            assert judged(0.0) and judged(math.nextafter(chance, 0))
        if chance < 1:
            assert not judged(chance) and not judged(math.nextafter(1, 0))
