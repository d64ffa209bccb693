"""Where the decode loop ends: end tokens, the budget, the context, and prompts that do not fit."""

import pytest
from checked_run import DRAFTERS, PROMPT, new_trunk, oracle, run

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.settings import RULES, Settings, SettingsError


def end_token_run(rule="match", drafter_length=4):
    """F02's run: new token 6 of a greedy run, not seen before it, is the end token; the drafts are the greedy tokens."""
    for seed in range(100):
        plain = new_trunk(seed=seed)
        greedy = plain.greedy(PROMPT, 30)
        if greedy[6] not in greedy[:6]:
            break
    trunk = new_trunk(seed=seed, end_ids=[greedy[6]])
    lenient = {"threshold": 0.01, "epsilon": 0.01}  # so that the lossy rules accept the greedy tokens too
    steps, tokens = run(trunk, oracle(trunk), rule=rule, num_draft_tokens=drafter_length, max_new_tokens=30, **lenient)
    return steps, tokens, greedy


@pytest.mark.parametrize("rule", RULES)
def test_field_F02_an_end_token_inside_a_block_ends_the_text(rule):
    steps, tokens, greedy = end_token_run(rule)
    assert tokens == greedy[:7] and steps[-1].finish_reason == "stop"
    last = steps[-1].verification  # token 0 is the prefill's, round 0 emits 1..5, round 1 accepts 6 and stops
    assert len(steps) == 3 and last.verdicts == ["accepted", "discarded", "discarded", "discarded"]
    assert (last.kind, last.token) == (None, None)


@pytest.mark.parametrize("length", range(9))
def test_field_F02_wherever_in_the_block_the_end_token_stands(length):
    steps, tokens, greedy = end_token_run(drafter_length=length)
    assert tokens == greedy[:7] and steps[-1].finish_reason == "stop"


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_an_end_token_as_bonus_as_recovered_or_from_the_prefill(drafter):
    """Every new token in turn is the end token, so that it meets every place in a round."""
    greedy = new_trunk(seed=7).greedy(PROMPT, 12)
    for index, end_id in enumerate(greedy):
        first = greedy.index(end_id)
        trunk = new_trunk(seed=7, end_ids=[end_id])
        steps, tokens = run(trunk, DRAFTERS[drafter](trunk), num_draft_tokens=3)
        assert tokens == greedy[: first + 1] and steps[-1].finish_reason == "stop", index


def test_end_token_at_the_budget_counts_as_stop():
    trunk = new_trunk(seed=7, end_ids=new_trunk(seed=7).greedy(PROMPT, 1))
    steps, _ = run(trunk, None, max_new_tokens=1)
    assert [step.finish_reason for step in steps] == ["stop"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drafter", ["none", "oracle", "soft"])
@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5, 9])
def test_field_F03_the_budget_is_never_exceeded(budget, drafter, rule):
    trunk = new_trunk(seed=8)
    steps, tokens = run(trunk, DRAFTERS[drafter](trunk), rule=rule, num_draft_tokens=3, max_new_tokens=budget)
    assert len(tokens) == budget and steps[-1].finish_reason == "length"
    if rule == "match":
        assert tokens == trunk.greedy(PROMPT, budget)


def test_field_F03_a_budget_of_0_is_refused():
    with pytest.raises(SettingsError, match="max_new_tokens.*from 1 to 1024"):
        Settings(max_new_tokens=0)


def test_drafts_that_the_budget_could_not_use_are_not_asked_for():
    trunk = new_trunk(seed=8)
    drafter = oracle(trunk)
    run(trunk, drafter, num_draft_tokens=8, max_new_tokens=5)
    assert drafter.asked == [3]  # one by the prefill, three drafts, one bonus


@pytest.mark.parametrize("drafter", ["none", "oracle", "always wrong", "soft"])
@pytest.mark.parametrize("room", range(6))
def test_the_context_limit_ends_the_text_and_is_never_overrun(room, drafter):
    """The scripted trunk asserts that no pass goes beyond its context. Its last token need not be read any more."""
    trunk = new_trunk(seed=9, context=len(PROMPT) + room)
    steps, tokens = [], []
    for step in decode(trunk, DRAFTERS[drafter](trunk), PROMPT, Settings(rule="match", num_draft_tokens=4)):
        steps.append(step)
        tokens += [step.token] if isinstance(step, PrefillStep) else step.new_tokens
    assert steps[-1].finish_reason == "context"
    assert tokens == new_trunk(seed=9).greedy(PROMPT, room + 1)


def test_budget_and_context_at_once_is_length():
    trunk = new_trunk(seed=9, context=len(PROMPT) + 3)
    *_, last = decode(trunk, None, PROMPT, Settings(max_new_tokens=4))
    assert last.finish_reason == "length"


@pytest.mark.parametrize("prompt, message", [([], "prompt: has no tokens"), ([1] * 9, "prompt: has 9 tokens; .* holds 8")])
def test_a_prompt_that_does_not_fit_is_refused_before_any_pass(prompt, message):
    trunk = new_trunk(context=8)
    with pytest.raises(SettingsError, match=message):
        next(decode(trunk, None, prompt, Settings()))
    assert trunk.passes == [] and trunk.caches == []
    assert len(list(decode(trunk, None, [1], Settings(max_new_tokens=2)))) == 2  # the next run works
