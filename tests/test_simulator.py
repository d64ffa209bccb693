"""The tutorial's simulator: its own test, and what the tutorial left open."""

import math

import numpy as np
import pytest
import torch

from mtviz import MultiTokenDecoderSim
from mtviz.simulator import MultiTokenDecoderSim as Direct

TOKENS = [10, 20, 30, 31]


def table(rows, vocab=40):
    """A (positions, vocabulary) nested list; each row gives {token: probability}."""
    return [[row.get(token, 0.0) for token in range(vocab)] for row in rows]


def tutorial_tables():
    draft = [{token: 0.5} for token in TOKENS]
    target = [{10: 0.8}, {20: 0.8}, {30: 0.2}, {31: 0.9}]
    return table(draft), table(target)


FORMS = {
    "lists": lambda rows: rows,
    "tuples": lambda rows: tuple(map(tuple, rows)),
    "float64 arrays": lambda rows: np.array(rows),
    "float32 arrays": lambda rows: np.array(rows, dtype=np.float32),
    "tensors": torch.tensor,
    "float64 tensors": lambda rows: torch.tensor(rows, dtype=torch.float64),
    "tensors that want gradients": lambda rows: torch.tensor(rows, requires_grad=True),
    "list of arrays": lambda rows: [np.array(row) for row in rows],
}


def test_the_package_exports_it():
    assert MultiTokenDecoderSim is Direct


def test_the_tutorials_own_test():
    decoder = MultiTokenDecoderSim(max_proposal_len=3, min_accept_ratio=0.6)
    draft, target = (torch.tensor(rows) for rows in tutorial_tables())
    result = decoder.decode(draft, target, TOKENS)
    assert result == {
        "proposed_tokens": [10, 20, 30],
        "accepted_tokens": [10, 20],
        "accepted_len": 2,
        "rejected_at": 2,
        "rejected_suffix": [30],
    }
    assert decoder.history == [result]
    assert decoder._accept_token(0.5, 0.31) is True
    assert decoder._accept_token(0.5, 0.29) is False


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("token_form", [list, tuple, np.array, torch.tensor], ids=["list", "tuple", "array", "tensor"])
def test_tables_and_tokens_in_every_form_give_the_same(form, token_form):
    draft, target = map(FORMS[form], tutorial_tables())
    result = MultiTokenDecoderSim(4, 0.3).decode(draft, target, token_form(TOKENS))
    assert result["accepted_tokens"] == TOKENS and result["rejected_at"] is None and result["rejected_suffix"] == []
    assert [type(token) for token in result["proposed_tokens"] + result["accepted_tokens"]] == [int] * 8
    assert type(result["accepted_len"]) is int


def test_bfloat16_tensors_are_read_as_what_they_hold():
    draft, target = (torch.tensor(rows, dtype=torch.bfloat16) for rows in tutorial_tables())
    assert MultiTokenDecoderSim(3, 0.6).verify(draft, target, TOKENS) == ([10, 20], 2)


@pytest.mark.parametrize("form", FORMS)
def test_lists_are_read_as_float32_as_the_tutorials_tensors_are(form):
    """Exactly at the gate, rounding to float32 decides."""
    differ = 0
    for hundredths in range(1, 100):
        for tenths in range(1, 10):
            draft_prob, tau, target_prob = hundredths / 100, tenths / 10, hundredths * tenths / 1000
            in_float32 = float(np.float32(target_prob)) >= float(np.float32(draft_prob)) * tau
            differ += in_float32 != (target_prob >= draft_prob * tau)
            accepted, _ = MultiTokenDecoderSim(1, tau).verify(FORMS[form]([[draft_prob]]), FORMS[form]([[target_prob]]), [0])
            assert (accepted == [0]) is in_float32
    assert differ > 50  # the question is a real one


@pytest.mark.parametrize("length", [0, -1, 1.5, "3", None, True, math.nan])
def test_a_length_that_is_no_positive_whole_number_is_refused(length):
    with pytest.raises(ValueError, match="max_proposal_len"):
        MultiTokenDecoderSim(max_proposal_len=length)


@pytest.mark.parametrize("ratio", [0, 0.0, -0.1, 1.0001, 2, math.nan, math.inf])
def test_a_ratio_outside_its_range_is_refused(ratio):
    with pytest.raises(ValueError, match="min_accept_ratio"):
        MultiTokenDecoderSim(min_accept_ratio=ratio)


def test_settings_are_public_and_have_the_tutorials_defaults():
    decoder = MultiTokenDecoderSim()
    assert (decoder.max_proposal_len, decoder.min_accept_ratio, decoder.history) == (4, 0.5, [])
    decoder = MultiTokenDecoderSim(np.int64(1), 1)
    assert (decoder.max_proposal_len, decoder.min_accept_ratio) == (1, 1.0)


def test_settings_may_be_changed_between_rounds():
    decoder = MultiTokenDecoderSim(4, 0.6)
    draft, target = tutorial_tables()
    assert decoder.verify(draft, target, TOKENS) == ([10, 20], 2)
    decoder.min_accept_ratio = 0.4
    assert decoder.verify(draft, target, TOKENS) == (TOKENS, None)
    decoder.max_proposal_len = 1
    assert decoder.verify(draft, target, TOKENS) == ([10], None)


def test_propose_takes_the_first_tokens_as_ints():
    decoder = MultiTokenDecoderSim(3)
    for tokens in (TOKENS, tuple(TOKENS), np.array(TOKENS), torch.tensor(TOKENS), [torch.tensor(token) for token in TOKENS]):
        proposed = decoder.propose(tokens)
        assert proposed == [10, 20, 30] and [type(token) for token in proposed] == [int] * 3
    assert decoder.propose([]) == [] and decoder.propose([7]) == [7]


@pytest.mark.parametrize("draft_prob", [0.0, -0.1])
def test_without_draft_probability_any_target_probability_accepts(draft_prob):
    decoder = MultiTokenDecoderSim(min_accept_ratio=1.0)
    assert decoder._accept_token(draft_prob, 1e-30) is True
    assert decoder._accept_token(draft_prob, 0.0) is False


@pytest.mark.parametrize("number", [float, np.float32, np.float64, torch.tensor])
def test_accept_token_returns_a_python_bool(number):
    decoder = MultiTokenDecoderSim()
    assert decoder._accept_token(number(0.5), number(0.25)) is True
    assert decoder._accept_token(number(0.5), number(0.125)) is False


def test_only_decode_writes_history():
    decoder = MultiTokenDecoderSim(3, 0.6)
    draft, target = tutorial_tables()
    for _ in range(2):
        decoder.verify(draft, target, TOKENS)
        decoder.propose(TOKENS)
        decoder._accept_token(0.5, 0.5)
    assert decoder.history == []
    decoder.decode(draft, target, TOKENS)
    decoder.decode(draft, target, TOKENS[:1])
    assert [entry["accepted_len"] for entry in decoder.history] == [2, 1]
    assert MultiTokenDecoderSim().history == []  # no list is shared


def test_probabilities_need_not_sum_to_1():
    assert MultiTokenDecoderSim(2, 0.5).verify([[5.0, 0.0], [0.0, 7.0]], [[2.5, 0.0], [0.0, 3.4]], [0, 1]) == ([0], 1)


def test_an_empty_proposal_is_all_accepted():
    decoder = MultiTokenDecoderSim()
    assert decoder.decode([[0.5]], [[0.5]], []) == {
        "proposed_tokens": [], "accepted_tokens": [], "accepted_len": 0, "rejected_at": None, "rejected_suffix": [],
    }  # fmt: skip


def test_tables_may_be_longer_than_the_proposal_and_of_different_widths():
    assert MultiTokenDecoderSim(1).verify([[0.5, 0.5]] * 5, [[0.5, 0.5, 0.0]] * 3, [1]) == ([1], None)


BAD = {
    "a token beyond the vocabulary": ([[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2, [0, 2], "token id 2 is outside"),
    "a negative token": ([[0.5, 0.5]] * 2, [[0.5, 0.5]] * 2, [0, -1], "token id -1 is outside"),
    "beyond the target's vocabulary only": ([[0.5, 0.5, 0.0]] * 2, [[0.5, 0.5]] * 2, [0, 2], "target_probs"),
    "too few draft rows": ([[0.5, 0.5]], [[0.5, 0.5]] * 2, [0, 1], "draft_probs has 1 rows for 2"),
    "too few target rows": ([[0.5, 0.5]] * 2, [[0.5, 0.5]], [0, 1], "target_probs has 1 rows for 2"),
    "one dimension": ([0.5, 0.5], [0.5, 0.5], [0, 1], "two dimensions"),
    "three dimensions": ([[[0.5, 0.5]]], [[[0.5, 0.5]]], [0], "two dimensions"),
    "ragged rows": ([[0.5, 0.5], [0.5]], [[0.5, 0.5]] * 2, [0, 1], "rows of one length"),
    "no numbers": ([["a", "b"]], [[0.5, 0.5]], [0], "table of numbers"),
    "nothing": (None, None, [0], "draft_probs"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_before_anything_is_judged(case, monkeypatch):
    draft, target, tokens, message = BAD[case]
    decoder = MultiTokenDecoderSim()
    judged = []
    monkeypatch.setattr(decoder, "_accept_token", lambda *given: judged.append(given) or True)
    for call in (decoder.verify, decoder.decode):
        with pytest.raises(ValueError, match=message):
            call(draft, target, tokens)
    assert judged == [] and decoder.history == []
