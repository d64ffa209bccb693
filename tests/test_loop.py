"""The decode loop on a scripted trunk: what is emitted, what is cached, what the drafter hears."""

from collections import Counter
from dataclasses import fields, is_dataclass, replace

import pytest
import torch
from checked_run import DRAFTERS, LOSSLESS_AT_0, PROMPT, VOCAB, new_trunk, oracle, run
from fakes import MarkovDrafter, MarkovTrunk, ScriptedDrafter, ScriptedTrunk, prefix_law

from mtviz.decoding import sampling
from mtviz.decoding.loop import PrefillStep, RoundStep, decode
from mtviz.drafting.lookup import LookupDrafter
from mtviz.drafting.protocol import Proposal
from mtviz.settings import RULES, Settings

# --- what is emitted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", LOSSLESS_AT_0)
@pytest.mark.parametrize("length", range(9))
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_at_temperature_0_lossless_rules_give_the_greedy_tokens(drafter, length, rule):
    trunk = new_trunk()
    steps, tokens = run(trunk, DRAFTERS[drafter](trunk), rule=rule, num_draft_tokens=length)
    assert tokens == trunk.greedy(PROMPT, 24)
    assert steps[-1].finish_reason == "length"
    if drafter == "oracle":  # every draft accepted: each round emits length + 1, the last what is left
        assert len(steps) - 1 == -(-23 // (length + 1))
    if drafter in ("none", "always wrong") or length == 0:
        assert len(steps) == 24


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_field_F01_a_prompt_of_one_token_gives_the_greedy_tokens(drafter, length):
    trunk = new_trunk(seed=1)
    _, tokens = run(trunk, DRAFTERS[drafter](trunk), prompt=[2], num_draft_tokens=length, max_new_tokens=32)
    assert tokens == trunk.greedy([2], 32)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("prompt", [[7], [7, 7], [1, 2, 1]])
def test_field_F09_prompts_shorter_than_any_look_back_window(prompt, drafter):
    trunk = new_trunk(seed=2)
    _, tokens = run(trunk, DRAFTERS[drafter](trunk), prompt=prompt, num_draft_tokens=4)
    assert tokens == trunk.greedy(prompt, 24)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drafter", ["soft", "lookup", "mixed"])
@pytest.mark.parametrize("law", [{"temperature": 1.0}, {"temperature": 0.6, "top_k": 5}, {"temperature": 1.5, "top_p": 0.8}, {"temperature": 0.0, "top_k": 3}])
def test_every_rule_keeps_the_invariants_of_a_round(rule, drafter, law):
    for seed in range(3):
        trunk = new_trunk(seed=seed, end_ids=[9])
        steps, tokens = run(trunk, DRAFTERS[drafter](trunk), rule=rule, num_draft_tokens=5, seed=seed, epsilon=0.2, **law)
        assert 9 not in tokens[:-1] and 1 <= len(tokens) <= 24
        assert steps[-1].finish_reason == ("stop" if tokens[-1] == 9 else "length")


@pytest.mark.parametrize("accepted_counts", [[0] * 6, [1] * 6, [3] * 6, [4] * 6, [0, 4, 2, 1, 3, 4]])
def test_field_F04_the_cache_after_scripted_acceptances(accepted_counts):
    """`run` compares the cache and the next logits with an uncached forward after each round."""
    trunk = new_trunk(seed=3)
    drafter = oracle(trunk, lambda rounds, k: min(accepted_counts[rounds % 6], k))
    steps, tokens = run(trunk, drafter, num_draft_tokens=4, max_new_tokens=40)
    judged = [step.verification.accepted for step in steps[1:7]]
    assert judged == accepted_counts
    assert tokens == trunk.greedy(PROMPT, 40)


def test_field_F04_oracle_drafts_stay_accepted_for_20_rounds():
    trunk = new_trunk(seed=4)
    steps, _ = run(trunk, oracle(trunk), num_draft_tokens=4, max_new_tokens=1 + 20 * 5)
    assert [step.verification.accepted for step in steps[1:]] == [4] * 20


def test_a_different_length_every_round():
    """A drafter may stop short of what it was asked for, a new length each round."""
    trunk, lengths = new_trunk(seed=5), [3, 0, 8, 1, 0, 5, 2, 7]
    drafter = ScriptedDrafter(VOCAB, script=lambda sequence, k: trunk.greedy(sequence, min(lengths[len(drafter.asked) % 8], k)))
    steps, tokens = run(trunk, drafter, num_draft_tokens=8, max_new_tokens=60)
    assert tokens == trunk.greedy(PROMPT, 60)
    assert {len(step.proposal.tokens) for step in steps[1:]} >= {0, 1, 2, 3, 5, 7, 8}


def test_field_F11_generations_side_by_side_do_not_touch_each_other():
    """There is no batch: prompts of different lengths run as generators of their own, here taking turns on one trunk."""
    trunk = new_trunk(seed=6)
    prompts = [[1, 2, 3, 4, 5], [7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4]]
    settings = Settings(rule="match", max_new_tokens=20)
    running = [(prompt, [], decode(trunk, LookupDrafter(VOCAB), prompt, settings)) for prompt in prompts]
    while running:
        for entry in list(running):
            prompt, tokens, steps = entry
            step = next(steps, None)
            if step is None:
                running.remove(entry)
                assert tokens == trunk.greedy(prompt, 20)
            else:
                tokens += [step.token] if isinstance(step, PrefillStep) else step.new_tokens


# --- drafters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script, message",
    [
        (lambda sequence, k: [1] * (k + 1), "proposed 5 tokens where 4 were asked for"),
        (lambda sequence, k: [1, VOCAB], f"proposed id {VOCAB}, which the tokenizer .0 to {VOCAB - 1}. lacks"),
        (lambda sequence, k: [-1], "proposed id -1"),
    ],
)
def test_a_drafter_that_breaks_its_promise_is_named(script, message):
    trunk = new_trunk()
    steps = decode(trunk, ScriptedDrafter(VOCAB, script=script), PROMPT, Settings())
    assert isinstance(next(steps), PrefillStep)
    with pytest.raises(ValueError, match=message):
        next(steps)
    assert trunk.passes == [PROMPT]  # nothing of the bad proposal was read


def test_field_F34_a_drafter_that_fails_leaves_the_next_run_untouched():
    trunk = new_trunk(seed=10)

    def script(sequence, k):
        if len(drafter.asked) == 3:
            raise RuntimeError("out of luck")
        return trunk.greedy(sequence, k)

    drafter = ScriptedDrafter(VOCAB, script=script)
    steps = []
    with pytest.raises(RuntimeError, match="out of luck"):
        for step in decode(trunk, drafter, PROMPT, Settings(rule="match")):
            steps.append(step)
    assert len(steps) == 3  # the prefill and two rounds
    _, tokens = run(trunk, oracle(trunk))
    assert tokens == trunk.greedy(PROMPT, 24)


@pytest.mark.parametrize("rule", RULES)
def test_field_F08_ids_beyond_the_tokenizer_are_neither_likely_nor_emitted(rule):
    """A head 128 wide over a tokenizer of 100, with most of its mass on id 120."""
    law = [0.005] * 128
    law[120] = 1 - 0.005 * 127
    trunk = ScriptedTrunk(lambda prefix: law, 100)
    for temperature in (0.0, 1.0):
        settings = Settings(rule=rule, temperature=temperature, epsilon=0.001, max_new_tokens=60)
        for step in decode(trunk, LookupDrafter(100), [1, 2, 3], settings):
            assert step.probs.shape[-1] == 100
            assert torch.allclose(step.probs.sum(-1), torch.ones(len(step.probs), dtype=torch.float64))
            assert all(token < 100 for token in ([step.token] if isinstance(step, PrefillStep) else step.new_tokens))


def test_a_drafter_starts_anew_with_every_generation():
    trunk = new_trunk(seed=11)
    drafter = LookupDrafter(VOCAB)
    alone = run(trunk, LookupDrafter(VOCAB), prompt=[1, 2, 1, 2])[1]
    run(trunk, drafter, prompt=[2, 1, 2, 1, 5, 5, 5])
    steps, tokens = run(trunk, drafter, prompt=[1, 2, 1, 2])
    assert tokens == alone
    fresh, _ = run(trunk, LookupDrafter(VOCAB), prompt=[1, 2, 1, 2])
    assert [step.proposal.tokens for step in steps[1:]] == [step.proposal.tokens for step in fresh[1:]]


def test_laws_of_a_drafter_are_judged_in_float64():
    trunk = new_trunk()

    class Float32Drafter(ScriptedDrafter):
        def propose(self, *given):
            proposal = super().propose(*given)
            return Proposal(proposal.tokens, proposal.draft_probs.float(), proposal.raw_draft_probs.float())

    drafter = Float32Drafter(VOCAB, law=prefix_law(VOCAB, 99))
    for step in list(decode(trunk, drafter, PROMPT, Settings(temperature=1.0, rule="speculative")))[1:]:
        assert step.proposal.draft_probs.dtype == step.proposal.raw_draft_probs.dtype == torch.float64


# --- chance -----------------------------------------------------------------------------------------------------------


def comparable(steps):
    """Everything of the steps but the seconds, as plain values."""

    def plain(value):
        if isinstance(value, torch.Tensor):
            return value.tolist()
        if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value) if "seconds" not in field.name}
        return value

    return [plain(step) for step in steps]


@pytest.mark.parametrize("rule", RULES)
def test_field_F13_a_seed_fixes_every_step(rule):
    def steps(seed):
        return comparable(run(new_trunk(), DRAFTERS["soft"](None), rule=rule, temperature=1.0, seed=seed)[0])

    torch.manual_seed(1)
    first = steps(1)
    torch.manual_seed(2)  # no generator but the run's own is used
    assert steps(1) == first
    assert steps(2) != first


def test_at_temperature_0_the_seed_changes_no_token():
    trunk = new_trunk()
    assert len({tuple(run(trunk, DRAFTERS["soft"](None), rule="ratio", seed=seed)[1]) for seed in range(5)}) == 1


def test_field_F06_the_reported_law_is_the_one_that_drafts_were_drawn_from():
    """20,000 tokens with top-k 2: what is emitted has the target's law cut to its top two."""
    draft = torch.tensor([[0.40, 0.20, 0.15, 0.10, 0.10, 0.05]] * 6, dtype=torch.float64)
    target = torch.tensor([[0.30, 0.35, 0.15, 0.10, 0.05, 0.05]] * 6, dtype=torch.float64)
    given = Settings(rule="speculative", temperature=1.0, top_k=2, num_draft_tokens=8, max_new_tokens=1000)
    trunk, drafter = MarkovTrunk(target), MarkovDrafter(sampling.process(draft.log(), given)[1])
    seen = Counter()
    for seed in range(20):
        for step in decode(trunk, drafter, [0], replace(given, seed=seed)):
            if isinstance(step, RoundStep):
                seen.update(step.new_tokens)
            if isinstance(step, RoundStep) and step.proposal.tokens:
                assert step.proposal.draft_probs[0].tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0, 0, 0])
    n = seen.total()
    assert n == 20 * 999
    assert abs(seen[0] / n - 0.4615) < 0.01
    assert 0.5 * sum(abs(seen[token] / n - law) for token, law in enumerate([6 / 13, 7 / 13, 0, 0, 0, 0])) < 0.02


@pytest.mark.parametrize("rule", LOSSLESS_AT_0)
def test_field_F07_a_temperature_above_0_samples(rule):
    target = [0.40, 0.35, 0.25]
    trunk, drafter = (
        fake(torch.tensor([law] * 3, dtype=torch.float64)) for fake, law in ((MarkovTrunk, target), (MarkovDrafter, [0.2, 0.2, 0.6]))
    )
    first, second = Counter(), Counter()
    for seed in range(2000):
        settings = Settings(rule=rule, temperature=1.0, top_p=0.9, num_draft_tokens=1, seed=seed, max_new_tokens=3)
        prefill, round_, *_ = decode(trunk, drafter, [0], settings)
        first[prefill.token] += 1
        second[round_.new_tokens[0]] += 1
    for seen in (first, second):
        assert all(abs(seen[token] / 2000 - prob) < 0.04 for token, prob in enumerate(target))
