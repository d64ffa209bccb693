"""Tens of thousands of seeds through the real loop: the lossless rules keep the trunk's distribution, `ratio` does not.

The trunk and the drafter are Markov chains on ten tokens, so that the true joint law is known: the trunk's law of the
n-th emitted token is the first one's, carried n - 1 times through the table.
"""

from collections import Counter

import pytest
import torch
from fakes import MarkovDrafter, MarkovTrunk

from mtviz.decoding import sampling
from mtviz.decoding.bias import bias_tv
from mtviz.decoding.loop import PrefillStep, decode
from mtviz.settings import Settings

VOCAB = 10
PROMPT = [0]
CERTAIN = 1  # what follows the prompt, so that every run's first round starts from the same place
EMITTED = 3


def tables():
    """Laws of trunk and drafter after each token: of the same making, but quite different (their mean TV is 0.4)."""
    generator = torch.Generator().manual_seed(0)
    target, draft = torch.softmax(1.2 * torch.randn(2, VOCAB, VOCAB, generator=generator, dtype=torch.float64), -1)
    target[PROMPT[0]] = torch.nn.functional.one_hot(torch.tensor(CERTAIN), VOCAB)
    return target, draft


TARGET, DRAFT = tables()


def emitted(rule, seeds, **settings):
    """The first three tokens emitted in rounds, for each seed."""
    trunk, drafter = MarkovTrunk(TARGET), MarkovDrafter(DRAFT)
    for seed in range(seeds):
        tokens = []
        given = Settings(rule=rule, temperature=1.0, num_draft_tokens=EMITTED, max_new_tokens=1 + EMITTED, seed=seed, **settings)
        for step in decode(trunk, drafter, PROMPT, given):
            if not isinstance(step, PrefillStep):
                tokens += step.new_tokens
        yield tuple(tokens)


def distance(counts, law):
    """Total variation between counts and a law over the same outcomes."""
    n = counts.total()
    return 0.5 * sum(abs(counts[outcome] / n - prob) for outcome, prob in law.items())


def law_of(probs):
    return dict(enumerate(probs.tolist()))


@pytest.mark.slow
@pytest.mark.parametrize("rule, seeds, at_one_position, over_a_pair", [("speculative", 50_000, 0.01, 0.02), ("match", 20_000, 0.015, 0.03)])
def test_lossless_rules_keep_the_joint_distribution(rule, seeds, at_one_position, over_a_pair):
    """By chance alone 50,000 seeds would be about 0.005 off at one position and 0.013 over a pair."""
    tokens = list(emitted(rule, seeds))
    first = TARGET[CERTAIN]
    for position in range(EMITTED):
        law = first @ torch.linalg.matrix_power(TARGET, position)
        assert distance(Counter(row[position] for row in tokens), law_of(law)) < at_one_position
    pairs = {(a, b): float(first[a] * TARGET[a, b]) for a in range(VOCAB) for b in range(VOCAB)}
    assert distance(Counter(row[:2] for row in tokens), pairs) < over_a_pair
    # The drafter alone would have written something else.
    assert 0.5 * float((DRAFT[CERTAIN] - first).abs().sum()) > 0.2


def test_the_ratio_rule_visibly_changes_the_distribution_by_its_computed_bias():
    settings = Settings(rule="ratio", threshold=0.3, temperature=1.0)
    target, draft = TARGET[CERTAIN], DRAFT[CERTAIN]
    computed = bias_tv(draft, target, float(sampling.entropy(target)), settings)
    measured = distance(Counter(row[0] for row in emitted("ratio", 8_000, threshold=0.3)), law_of(target))
    assert computed > 0.1
    assert abs(measured - computed) < 0.015
