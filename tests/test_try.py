"""The Try page without its browser: what is typed, what the simulator makes of it, the program it shows, the exercise."""

import contextlib
import io
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import programs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtviz import MultiTokenDecoderSim, rules
from mtviz.ui.try_page import _SCRIPTS, MAX_ROWS, TRY, TryError, _script, answer, decode, python_call, read_hand

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {example["name"]: example for example in json.loads((TRY / "examples.json").read_text(encoding="utf-8"))}
BLANKS = json.loads((TRY / "blanks.json").read_text(encoding="utf-8"))
sys.path.insert(0, str(ROOT / "exercises"))
import check as exercise  # noqa: E402


def typed(rows=(("10", "0.5", "0.8"),), max_proposal_len=3, min_accept_ratio=0.6):
    names = ("token", "draft_prob", "target_prob")
    return {"rows": [dict(zip(names, row)) for row in rows], "max_proposal_len": max_proposal_len, "min_accept_ratio": min_accept_ratio}


def verdicts(round_):
    return [row["verdict"] for row in round_["rows"]]


def test_the_tutorials_example():
    round_ = decode(read_hand(EXAMPLES["tutorial"]))
    assert round_["result"] == {
        "proposed_tokens": [10, 20, 30], "accepted_tokens": [10, 20], "accepted_len": 2, "rejected_at": 2, "rejected_suffix": [30],
    }  # fmt: skip
    assert verdicts(round_) == ["accepted", "accepted", "rejected", "unproposed"]
    assert round_["rows"][2]["gate"] == 0.3 and round_["rows"][2]["ratio"] == pytest.approx(0.4)


def test_the_example_with_draft_probability_0():
    round_ = decode(read_hand(EXAMPLES["zero"]))
    assert verdicts(round_) == ["accepted", "accepted", "rejected", "unjudged"]
    assert [row["ratio"] is None for row in round_["rows"]] == [False, True, True, False]


def test_the_example_that_gives_nothing():
    assert decode(read_hand(EXAMPLES["empty"]))["result"]["accepted_tokens"] == []


PROBS = st.floats(0, 1).map(lambda value: f"{value:.3f}") | st.sampled_from(["0", "1", "1e-9", ".5"])
HANDS = st.builds(
    typed, st.lists(st.tuples(st.integers(0, 60).map(str), PROBS, PROBS), min_size=1, max_size=MAX_ROWS),
    st.integers(1, 8), st.integers(1, 100).map(lambda percent: percent / 100),
)  # fmt: skip


@given(HANDS)
def test_the_page_shows_what_the_simulator_decides(hand):
    hand = read_hand(hand)
    round_ = decode(hand)
    # each row's own numbers decide its verdict, by the rule that the engine uses
    judged = [row for row in round_["rows"] if row["verdict"] in ("accepted", "rejected")]
    for row in judged:
        accepted = rules.accept_ratio(row["draft_prob"], row["target_prob"], hand.min_accept_ratio)
        assert accepted is (row["verdict"] == "accepted")
        nothing = dict(u=0.0, entropy=0.0, epsilon=0.0, delta=0.0, temperature=0.0)
        assert row["gate"] == rules.gate("ratio", draft_prob=row["draft_prob"], threshold=hand.min_accept_ratio, **nothing)
    seen, proposed = verdicts(round_), len(round_["result"]["proposed_tokens"])
    assert seen.count("accepted") == round_["result"]["accepted_len"] and seen[proposed:] == ["unproposed"] * (len(seen) - proposed)
    assert len(round_["result"]["rejected_suffix"]) == sum(verdict in ("rejected", "unjudged") for verdict in seen)


@given(HANDS)
def test_the_program_on_the_page_returns_the_same(hand):
    hand = read_hand(hand)
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(python_call(hand), names)
    round_ = decode(hand)
    assert names["result"] == round_["result"] and printed.getvalue().strip() == round_["returns"]
    assert names["decoder"].history == [round_["result"]]


def test_lists_give_the_simulator_the_same():
    hand = read_hand(EXAMPLES["tutorial"])
    tables = np.zeros((2, 4, 32))
    for at, token in enumerate(hand.draft_tokens):
        tables[:, at, token] = hand.draft_probs[at], hand.target_probs[at]
    assert MultiTokenDecoderSim(3, 0.6).decode(*tables.tolist(), hand.draft_tokens) == decode(hand)["result"]


BAD = [
    (typed(rows=[("10", "0.5", "0.8"), ("20", "NaN", "0.8")]), 2, "draft_prob", "NaN"),
    (typed(rows=[("10", "0.5", "abc")]), 1, "target_prob", "abc"),
    (typed(rows=[("10", "-0.1", "0.5")]), 1, "draft_prob", "-0.1"),
    (typed(rows=[("10", "0.5", "1.01")]), 1, "target_prob", "1.01"),
    (typed(rows=[("10", "0.5", "inf")]), 1, "target_prob", "inf"),
    (typed(rows=[("10", "0,5", "1")]), 1, "draft_prob", "0,5"),
    (typed(rows=[("10", "", "1")]), 1, "draft_prob", ""),
    (typed(rows=[("1.5", "0.5", "1")]), 1, "token", "1.5"),
    (typed(rows=[("-1", "0.5", "1")]), 1, "token", "-1"),
    (typed(rows=[("49152", "0.5", "1")]), 1, "token", "49152"),
    (typed(rows=[("9" * 5000, "0.5", "1")]), 1, "token", "9" * 23 + "…"),
    (typed(rows=[(None, "0.5", "1")]), 1, "token", ""),
    (typed(rows=[]), None, "rows", "0"),
    (typed(rows=[("1", "0.5", "0.5")] * (MAX_ROWS + 1)), None, "rows", str(MAX_ROWS + 1)),
    (typed(max_proposal_len=0), None, "max_proposal_len", "0"),
    (typed(max_proposal_len=9), None, "max_proposal_len", "9"),
    (typed(max_proposal_len=2.5), None, "max_proposal_len", "2.5"),
    (typed(min_accept_ratio=0), None, "min_accept_ratio", "0"),
    (typed(min_accept_ratio=1.01), None, "min_accept_ratio", "1.01"),
    (typed(min_accept_ratio=True), None, "min_accept_ratio", "True"),
    ({"rows": ["no row"], "max_proposal_len": 3, "min_accept_ratio": 0.6}, 1, "token", ""),
    ({}, None, "rows", ""),
    ("text", None, "rows", ""),
    (None, None, "rows", ""),
]


@pytest.mark.parametrize("given_, row, field, got", BAD)
def test_bad_input_names_its_row_and_field(given_, row, field, got):
    with pytest.raises(TryError):
        read_hand(given_)
    assert answer(given_) == {"problem": {"field": field, "got": got, "row": row}}


def test_a_token_may_stand_in_two_rows_with_probabilities_of_its_own():
    round_ = decode(read_hand(typed(rows=[("8", "0.5", "0.9"), ("8", "0.5", "0.1"), (" 8 ", "5e-1", "1")])))
    assert round_["result"]["accepted_tokens"] == [8] and round_["result"]["rejected_suffix"] == [8, 8]


def test_an_answer_is_plain_json():
    assert json.loads(json.dumps(answer(EXAMPLES["zero"]), allow_nan=False)) == answer(EXAMPLES["zero"])


def test_both_languages_have_all_strings():
    strings = json.loads((TRY / "strings.json").read_text(encoding="utf-8"))
    script = "".join(path.read_text(encoding="utf-8") for path in TRY.glob("*.js"))
    english, chinese = (set(strings[language]) for language in ("en", "zh"))
    assert {key for key in english if not key.endswith("_one")} == chinese
    for key in re.findall(r"\bt\('([\w.]+)'", script):
        assert key in english, key
    for start in re.findall(r"\bt\(`([\w.]+)\$", script):
        assert any(key.startswith(start) for key in english), start
    for text in [part for blank in BLANKS for part in blank["choices"]]:
        assert set(text["why"]) == {"en", "zh"}
    for example in EXAMPLES.values():
        assert set(example["title"]) == set(example["teaches"]) == {"en", "zh"}


def test_the_joined_script_has_every_module_once_and_in_order():
    before = set()
    for path in _SCRIPTS:
        imported = re.findall(r"^import .* from '(.*)';$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert {(path.parent / name).resolve() for name in imported} <= before, path.name
        before.add(path)
    assert "export " not in _script()


def test_no_name_is_declared_twice_in_the_joined_script():
    done = subprocess.run([programs.node(), "--check", "--input-type=module"], input=_script(), capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


def filled(**wrong):
    """The simulator with the right line in each blank, but for those given here."""
    parts = []
    for blank in BLANKS:
        (right,) = [choice["code"] for choice in blank["choices"] if choice["right"]]
        parts.append(blank["before"] + wrong.get(blank["name"], right) + blank["after"])
    names = {}
    exec("from mtviz import MultiTokenDecoderSim as Finished\nclass Sim(Finished):\n" + textwrap.indent("\n".join(parts), "    "), names)
    return names["Sim"]


def test_the_right_lines_make_the_simulator():
    assert exercise.check(filled()) == dict.fromkeys(exercise.CHECKS)
    assert [blank["name"] for blank in BLANKS] == list(exercise.CHECKS)


@pytest.mark.parametrize(
    "name, code", [(blank["name"], choice["code"]) for blank in BLANKS for choice in blank["choices"] if not choice["right"]]
)
def test_every_wrong_line_is_wrong(name, code):
    assert exercise.check(filled(**{name: code}))[name]


@pytest.mark.parametrize("what, status, right", [("mtviz.simulator", 0, 4), (None, 1, 0)])
def test_the_exercise_is_passed_by_the_simulator_and_not_by_its_blanks(what, status, right):
    command = [sys.executable, "exercises/check.py", *([what] if what else [])]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=ROOT, env={"PYTHONIOENCODING": "utf-8"})
    assert (done.returncode, done.stdout.count("✓")) == (status, right), done.stderr
    assert done.stdout.count("still to be written") == (0 if what else 4)
