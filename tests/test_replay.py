"""Replaying a text says what decoding it again with another proposal length would have said."""

from dataclasses import replace

import pytest
import torch
from test_trunk import tiny_trunk

from mtviz.drafting.adaptive import AdaptiveDrafter
from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.hybrid import HybridDrafter
from mtviz.drafting.lookup import LookupDrafter
from mtviz.evaluation.acceptance import _decoded, _outputs, measure, replayed, summary
from mtviz.evaluation.replay import agreements, followed, read, rounds
from mtviz.heads import FAMILIES
from mtviz.heads.length import LengthPredictor
from mtviz.settings import Settings

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
    prompts = ["one", "second", "a third one", "4", "fifth"]
    plain = Settings(rule="match", max_new_tokens=BUDGET)
    texts = [read(trunk, trunk.encode(prompt), _decoded(trunk, None, prompt, plain).tokens) for prompt in prompts]
    agree = [agreements(heads, text) for text in texts]
    accepted = 0
    for length in (1, 3, 8):
        settings = Settings(rule="match", num_draft_tokens=length, max_new_tokens=BUDGET)
        judged = [rounds(known, len(text.new), length, BUDGET) for text, known in zip(texts, agree)]
        row = replayed(family, texts, judged, settings)
        run = summary(family, settings, [_decoded(trunk, HeadsDrafter(heads), prompt, settings) for prompt in prompts])
        for timed in ("milliseconds_per_proposal", "milliseconds_per_pass"):
            assert row.pop(timed) is None and run.pop(timed) > 0
        assert row.pop("replayed") and row == run
        accepted += row["survival"][0] > 0
    assert accepted == 3


@pytest.mark.parametrize("make", [AdaptiveDrafter, HybridDrafter, lambda heads, predictor: LookupDrafter(heads.trunk.vocab_size)])
def test_a_drafter_that_chooses_its_length_is_followed_as_the_loop_does(trunk, make):
    heads = FAMILIES["mtp"](trunk, torch.arange(256)).requires_grad_(False)
    torch.manual_seed(1)
    for weight in heads.parameters():
        weight.add_(0.02 * torch.randn_like(weight))
    predictor = LengthPredictor("mtp", "", trunk.fingerprint, (0.5, 0.2, 0.0, 0.1, 0.1), (0.4, 0.1, 0.0, -0.2, -0.4, -0.6, -0.8, -1.0), 0.1, {})
    drafter = make(heads, predictor)
    prompts = ["one", "second one second", "a third one", "4", "fifth", "8", "nine"]
    plain = Settings(rule="match", max_new_tokens=BUDGET)
    texts = [read(trunk, trunk.encode(prompt), _decoded(trunk, None, prompt, plain).tokens) for prompt in prompts]
    drafted = set()
    for length in (1, 3, 8):
        settings = Settings(rule="match", num_draft_tokens=length, max_new_tokens=BUDGET)
        outputs = [_decoded(trunk, drafter, prompt, settings) for prompt in prompts]
        assert [followed(drafter, text, settings) for text in texts] == [(output.verdicts, output.emitted) for output in outputs]
        drafted |= {len(round_) for output in outputs for round_ in output.verdicts}
    assert len(drafted) > 3


def test_an_accepted_end_token_ends_the_last_round():
    agree = torch.tensor([[True, True, False], [True, False, False]])
    assert rounds(agree, 3, 3, 10) == ([["accepted", "accepted", "discarded"]], [2])
    assert rounds(agree, 3, 1, 10) == ([["accepted"]], [2])


def test_the_budget_shortens_the_last_proposals():
    agree = torch.zeros(3, 4, dtype=torch.bool)
    verdicts, emitted = rounds(agree, 4, 4, 4)
    assert [len(round_) for round_ in verdicts] == [2, 1, 0] and emitted == [1, 1, 1]


def test_replayed_sampling_accepts_as_often_as_the_loop(trunk):
    heads = FAMILIES["hierarchical"](trunk, torch.arange(0, 256, 2)).requires_grad_(False)
    torch.manual_seed(1)
    for weight in heads.parameters():
        weight.add_(0.02 * torch.randn_like(weight))
    prompts = [f"prompt {n}" for n in range(60)]
    settings = Settings(rule="speculative", temperature=1.0, num_draft_tokens=3, max_new_tokens=BUDGET)
    texts = [read(trunk, trunk.encode(prompt), output.tokens) for prompt, output in zip(prompts, _outputs(trunk, None, prompts, settings))]
    dice = torch.Generator().manual_seed(0)
    judged = [rounds(agreements(heads, text, dice), len(text.new), 3, BUDGET) for text in texts]
    row = replayed("hierarchical", texts, judged, settings)
    run = measure(trunk, HeadsDrafter(heads), prompts, replace(settings, seed=1000))
    assert run["rounds"] > 1500 and 0.1 < run["survival"][0] < 0.9
    for name in ("survival", "conditional_acceptance"):
        for one, other, judged in zip(row[name], run[name], (1500, 400, 100)):
            assert abs(one - other) < 4 * (2 * 0.25 / judged) ** 0.5, (name, row[name], run[name])
    assert row["mean_acceptance_length"] == pytest.approx(run["mean_acceptance_length"], rel=0.05)
