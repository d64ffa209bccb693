"""Replaying a text says what decoding it again with another proposal length would have said."""

import pytest
import torch
from test_trunk import tiny_trunk

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.drafting.heads import HeadsDrafter
from mtviz.evaluation.replay import replay, rounds
from mtviz.heads import FAMILIES
from mtviz.settings import Settings
from mtviz.trace import count_verdicts, share

BUDGET = 40


@pytest.fixture(scope="module")
def trunk():
    return tiny_trunk()


@pytest.mark.parametrize("family", ["parallel", "hierarchical", "mtp"])
def test_replayed_rounds_are_those_of_the_loop(trunk, family):
    heads = FAMILIES[family](trunk, torch.arange(256)).requires_grad_(False)
    torch.manual_seed(1)
    for weight in heads.parameters():  # away from the identity, and near enough to it to be right at times
        weight.add_(0.02 * torch.randn_like(weight))
    prompts = [[3, 5, 7], [9], [2, 4, 6, 8, 10, 12], [11, 1], [6, 6, 6]]
    texts = []
    for prompt in prompts:
        settings = Settings(rule="match", drafter="none", num_draft_tokens=0, max_new_tokens=BUDGET)
        steps = decode(trunk, None, prompt, settings)
        texts.append((prompt, [token for step in steps for token in ([step.token] if isinstance(step, PrefillStep) else step.new_tokens)]))
    accepts = 0
    for length, row in zip((1, 3, 8), replay(trunk, heads, texts, (1, 3, 8), BUDGET)):
        settings = Settings(rule="match", num_draft_tokens=length, max_new_tokens=BUDGET)
        run = [step for prompt in prompts for step in decode(trunk, HeadsDrafter(heads), prompt, settings) if not isinstance(step, PrefillStep)]
        drafted, judged, accepted = count_verdicts(step.verification.verdicts for step in run)
        assert row["rounds"] == len(run) and row["drafted"] == sum(drafted)
        assert row["emitted"] == sum(len(step.new_tokens) for step in run)
        assert row["survival"] == [share(a, d) for a, d in zip(accepted, drafted)]
        assert row["conditional_acceptance"] == [share(a, j) for a, j in zip(accepted, judged)]
        accepts += sum(accepted)
    assert accepts


def test_an_accepted_end_token_ends_the_last_round():
    agree = torch.tensor([[True, True, False], [True, False, False]])
    assert rounds(agree, 3, 3, 10) == ([["accepted", "accepted", "unjudged"]], [2])
    assert rounds(agree, 3, 1, 10) == ([["accepted"]], [2])


def test_the_budget_shortens_the_last_proposals():
    agree = torch.zeros(3, 4, dtype=torch.bool)
    verdicts, emitted = rounds(agree, 4, 4, 4)
    assert [len(round_) for round_ in verdicts] == [2, 1, 0] and emitted == [1, 1, 1]
