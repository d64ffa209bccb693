"""Re-judging stored rounds under other settings, without the model."""

import copy
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import END, new_drafter, new_trunk

from mtviz.decoding.loop import RoundStep, decode
from mtviz.decoding.record import decode_trace
from mtviz.decoding.verification import verify
from mtviz.settings import RULES, Settings
from mtviz.trace import dumps, judge_again, loads


@cache
def stored_rounds(rule, temperature, seed):
    """Rounds as stored and the steps that they record, of one run."""
    given = Settings(rule=rule, temperature=temperature, seed=seed, num_draft_tokens=5, max_new_tokens=30, epsilon=0.2)
    *_, trace = decode_trace(new_trunk(seed), new_drafter(seed), "Once", given)
    steps = decode(new_trunk(seed), new_drafter(seed), new_trunk().encode("Once"), given)
    steps = [step for step in steps if isinstance(step, RoundStep)]
    return given, list(zip(loads(dumps(trace))["rounds"], steps, strict=True))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_judging_again_under_the_same_settings_repeats_the_engine(rule, temperature):
    judged = 0
    for seed in range(8):
        given_settings, rounds = stored_rounds(rule, temperature, seed)
        for round_, _ in rounds:
            again = judge_again(round_, given_settings)
            assert again["verdicts"] == [draft["verdict"] for draft in round_["drafts"]]
            assert again["accepted"] == again["verdicts"].count("accepted")
            emitted = round_["emitted"] or {"kind": None, "token": None}
            assert again["kind"] == emitted["kind"]
            if again["kind"] == "recovered" and rule != "match" and temperature > 0:
                assert again["token"] is None  # it would be redrawn
            else:
                assert again["token"] == emitted["token"]
            judged += 1
    assert judged > 40


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_judging_again_under_other_settings_agrees_with_a_fresh_verification(rule, temperature):
    kinds = set()
    for seed in range(4):
        _, rounds = stored_rounds(rule, temperature, seed)
        others = [
            Settings(rule=other, temperature=temperature, num_draft_tokens=length, threshold=threshold, epsilon=epsilon)
            for other in RULES
            for length in (0, 1, 3, 8)
            for threshold, epsilon in ((0.1, 0.05), (0.9, 0.6))
        ]
        for round_, step in rounds:
            for other in others:
                again = judge_again(round_, other)
                fresh = fresh_verification(step, other)
                assert (again["verdicts"], again["accepted"], again["kind"]) == (fresh.verdicts, fresh.accepted, fresh.kind)
                if again["token"] is not None:
                    assert again["token"]["id"] == fresh.token
                else:
                    assert fresh.token is None or (fresh.kind == "recovered" and other.rule != "match" and temperature > 0)
                kinds.add((fresh.kind, again["token"] is None))
    assert {("bonus", False), ("recovered", False)} <= kinds


def fresh_verification(step, other):
    k = min(len(step.proposal.tokens), other.num_draft_tokens)
    return verify(
        step.proposal.tokens[:k], step.proposal.draft_probs[:k], step.probs[: k + 1], step.trunk_tokens[: k + 1], step.uniforms[:k],
        0.5, step.entropies, other, {END},
    )


@given(st.integers(0, 5), st.floats(0.01, 1), st.floats(0.01, 1))
def test_a_lower_threshold_never_accepts_less(seed, first, second):
    (_, rounds), (low, high) = STORED[seed], sorted((first, second))
    for round_, _ in rounds:
        lenient, strict = (judge_again(round_, Settings(threshold=threshold, temperature=1.0, num_draft_tokens=5)) for threshold in (low, high))
        assert lenient["accepted"] >= strict["accepted"]


STORED = [stored_rounds("ratio", 1.0, seed) for seed in range(6)]


def test_judging_again_leaves_the_round_as_it_was():
    _, rounds = STORED[0]
    for round_, _ in rounds:
        before = copy.deepcopy(round_)
        judge_again(round_, Settings(rule="match", num_draft_tokens=2))
        assert round_ == before
