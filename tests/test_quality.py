"""Perplexity: every token counts once and the same."""

import math

import pytest
from fakes import ScriptedTrunk, prefix_law

from mtviz.evaluation.quality import perplexity, text_perplexity, windows


def test_field_F25_parts_weigh_by_their_tokens():
    assert perplexity([(3.0, 8), (1.0, 2)]) == pytest.approx(math.exp(2.6)) == pytest.approx(13.46, abs=0.01)


def test_field_F25_each_token_is_scored_once():
    scored = [token for _, end, first in windows(20, 8, 4) for token in range(first, end)]
    assert scored == list(range(1, 20))
    assert all(end - begin <= 8 and begin < first for begin, end, first in windows(20, 8, 4))


@pytest.mark.parametrize("length", range(0, 40))
@pytest.mark.parametrize("window, stride", [(2, 1), (8, 4), (8, 7), (5, 3), (64, 1)])
def test_field_F25_whatever_the_length_and_the_window(length, window, stride):
    scored = [token for _, end, first in windows(length, window, stride) for token in range(first, end)]
    assert scored == list(range(1, length))


@pytest.mark.parametrize("ids", [[], [3]])
def test_field_F25_no_token_to_score_has_no_perplexity(ids):
    assert text_perplexity(ScriptedTrunk(prefix_law(5, 0), 5), ids) is None
    assert perplexity([]) is None and perplexity([(3.0, 0)]) is None


def test_one_window_is_the_chain_rule():
    trunk = ScriptedTrunk(prefix_law(5, 0), 5)
    ids = [1, 4, 0, 2, 2, 3]
    nats = -sum(math.log(trunk.probs(ids[:i])[ids[i]]) for i in range(1, len(ids)))
    assert text_perplexity(trunk, ids, window=16, stride=8) == pytest.approx(math.exp(nats / 5))


@pytest.mark.parametrize("stride", [0, 8, 9])
def test_a_stride_that_would_skip_tokens_is_refused(stride):
    with pytest.raises(ValueError, match="from 1 to 7"):
        list(windows(20, 8, stride))
