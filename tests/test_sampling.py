"""From logits to laws and from laws to tokens."""

import math
from collections import Counter
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from mtviz.decoding import sampling
from mtviz.settings import Settings

LAWS = st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1)), min_size=1, max_size=12).filter(lambda law: sum(law) > 0)
BELOW_ONE = math.nextafter(1, 0)


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64)


def transformers_law(logits, settings):
    """The law that transformers' own warpers leave, in float64."""
    if settings.temperature:
        logits = TemperatureLogitsWarper(settings.temperature)(None, logits)
    if settings.top_k:
        logits = TopKLogitsWarper(settings.top_k)(None, logits)
    if settings.top_p < 1:
        logits = TopPLogitsWarper(settings.top_p)(None, logits)
    return torch.softmax(logits, -1)


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0, 1.7])
@pytest.mark.parametrize("top_k", [0, 1, 3, 50, 1000])
@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.6, 0.05])
def test_laws_equal_those_of_transformers(temperature, top_k, top_p):
    settings = Settings(temperature=temperature, top_k=top_k, top_p=top_p)
    logits = 4 * torch.randn(6, 200, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    raw, probs = sampling.process(logits, settings)
    assert torch.allclose(probs, transformers_law(logits, settings), atol=1e-12)
    assert torch.allclose(raw, torch.softmax(logits, -1), atol=1e-15)
    assert torch.allclose(probs.sum(-1), torch.ones(6, dtype=torch.float64), atol=1e-12)
    if top_k:
        assert (probs > 0).sum(-1).max() <= top_k


def test_float32_logits_are_judged_in_float64():
    raw, probs = sampling.process(torch.randn(2, 5), Settings(temperature=0.5))
    assert raw.dtype == probs.dtype == torch.float64


@pytest.mark.parametrize("temperature", [1e-6, 1e-300, 5e-324])
def test_field_F05_a_tiny_temperature_is_finite_and_greedy(temperature):
    _, probs = sampling.process(tensor([[0.1, 700.0, -700.0, 699.9]]), Settings(temperature=temperature))
    assert probs.tolist() == [[0.0, 1.0, 0.0, 0.0]]
    _, tied = sampling.process(tensor([[3.0, 3.0, 1.0]]), Settings(temperature=temperature))
    assert tied.tolist() == [[0.5, 0.5, 0.0]]


def test_ids_without_a_token_keep_no_probability():
    logits = tensor([[1.0, -math.inf, 2.0, -math.inf]])
    for settings in [Settings(), Settings(temperature=0.1), Settings(temperature=2.0, top_k=3, top_p=0.99)]:
        raw, probs = sampling.process(logits, settings)
        assert raw[0, 1] == raw[0, 3] == probs[0, 1] == probs[0, 3] == 0
        assert torch.isfinite(probs).all() and math.isclose(float(probs.sum()), 1)


def test_ties_at_the_border_of_top_k_all_stay_and_at_that_of_top_p_the_lower_ids():
    logits = tensor([[1.0, 0.0, 0.0, 0.0]])
    _, probs = sampling.process(logits, Settings(temperature=1.0, top_k=2))
    assert (probs > 0).all()
    _, probs = sampling.process(logits, Settings(temperature=1.0, top_p=0.6))
    assert (probs > 0).tolist() == [[True, True, False, False]]


@given(LAWS, st.one_of(st.sampled_from([0.0, 0.5, BELOW_ONE]), st.floats(0, 1, exclude_max=True)))
def test_draw_inverts_the_cumulative_law_and_never_takes_what_is_impossible(law, uniform):
    (token,) = sampling.draw(tensor([law]), [uniform])
    assert law[token] > 0
    total, before = math.fsum(law), math.fsum(law[:token])
    assert before - 1e-12 * total <= uniform * total <= before + law[token] + 1e-12 * total


def test_draw_at_both_ends_of_the_uniform():
    laws = tensor([[0.0, 0.3, 0.7, 0.0], [0.0, 0.0, 1.0, 0.0]])
    assert sampling.draw(laws, [0.0, 0.0]) == [1, 2]
    assert sampling.draw(laws, [BELOW_ONE, BELOW_ONE]) == [2, 2]
    thirds = tensor([[1 / 3, 1 / 3, 1 / 3, 0.0]]) * (1 - 1e-9)  # sums to less than 1 by rounding, as laws do
    assert sampling.draw(thirds, [BELOW_ONE]) == [2]


def test_draw_takes_each_row_at_its_own_uniform():
    laws = tensor([[0.5, 0.5], [0.1, 0.9], [0.9, 0.1]])
    assert sampling.draw(laws, [0.4, 0.4, 0.4]) == [0, 1, 0]
    assert sampling.draw(laws, [0.6, 0.05, 0.95]) == [1, 0, 1]
    assert sampling.draw(laws[:0], []) == []


def test_draw_has_the_law_it_is_given():
    law, dice, n = [0.05, 0.0, 0.45, 0.2, 0.3], Random(0).random, 20_000
    seen = Counter(sampling.draw(tensor([law]).expand(n, -1), [dice() for _ in range(n)]))
    assert all(abs(seen[token] / n - prob) < 0.01 for token, prob in enumerate(law))


@pytest.mark.parametrize("law", [[0.7, 0.2, 0.1], [0.0, 1.0, 0.0]])
def test_field_F05_the_residual_of_equal_laws_is_the_target(law):
    result = sampling.residual(tensor(law), tensor(law))
    assert result.tolist() == law


@given(LAWS, LAWS)
def test_a_residual_is_a_law_on_what_the_target_has_more_of(first, second):
    size = min(len(first), len(second))
    target, draft = (tensor(law[:size]) + 1e-12 for law in (first, second))
    target, draft = target / target.sum(), draft / draft.sum()
    result = sampling.residual(target, draft)
    assert torch.isfinite(result).all() and math.isclose(float(result.sum()), 1, abs_tol=1e-9)
    if not torch.equal(target, draft):
        assert (result[target <= draft] == 0).all()


def test_entropy_in_nats():
    laws = tensor([[0.25] * 4, [1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]])
    assert sampling.entropy(laws).tolist() == pytest.approx([math.log(4), 0, math.log(2)])
