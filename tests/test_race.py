"""The race: both lanes on the real engine, in turns, and what it came to."""

from dataclasses import replace

import pytest
from fakes import ScriptedDrafter, ScriptedTrunk
from recorded import VOCAB, new_drafter, new_trunk, scripted_law

from mtviz.evaluation import race as racing
from mtviz.evaluation.race import clock, command, outcome, race, result, summary
from mtviz.settings import Settings

EXACT = Settings(rule="match", max_new_tokens=40, num_draft_tokens=4)


def finished(trunk=None, drafter=None, settings=EXACT):
    trunk = trunk or new_trunk(end_ids=())
    *_, lanes = race(trunk, drafter or new_drafter(), "Once", settings)
    return trunk, lanes


def test_an_exact_race_ends_with_identical_texts_in_fewer_passes():
    trunk, (plain, drafted) = finished()
    assert [token["id"] for token in plain["output"]["tokens"]] == trunk.greedy(trunk.encode("Once"), 40)
    won = outcome(plain, drafted)
    assert won["difference"] is None and won["ceiling"] == 5
    assert [lane["new_tokens"] for lane in won["lanes"]] == [40, 40]
    assert won["lanes"][0]["passes"] == 40 and won["lanes"][1]["passes"] < 40


def test_the_first_difference_is_where_the_texts_part():
    """A drafter that is sure of the wrong token, and a rule that takes it."""
    law = scripted_law(3)

    def never_the_trunks(sequence, k):
        probs = list(law(tuple(sequence)))
        return [probs.index(max(probs)) ^ 1 if len(sequence) >= 9 else probs.index(max(probs))]

    trunk = ScriptedTrunk(law, VOCAB)
    _, (plain, drafted) = finished(trunk, ScriptedDrafter(VOCAB, script=never_the_trunks), replace(EXACT, rule="ratio", threshold=1e-9, num_draft_tokens=1))
    parted = outcome(plain, drafted)["difference"]
    ours, theirs = ([token["id"] for token in lane["output"]["tokens"]] for lane in (plain, drafted))
    assert 0 < parted["token"] < 40
    assert ours[: parted["token"]] == theirs[: parted["token"]] and ours[parted["token"]] != theirs[parted["token"]]
    probs = sorted(trunk.probs([*trunk.encode("Once"), *ours[: parted["token"]]]))
    assert parted["gap"] == pytest.approx(probs[-1] - probs[-2])


def test_the_lane_behind_goes_next_and_never_both_at_once(monkeypatch):
    """With times that are known: a plain step takes 1, one with drafts 3, so that three plain steps go to one of the other."""
    order = []

    def lane(trunk, drafter, prompt, settings, **_):
        trace = {"seconds": {"prefill": 0.0, "draft": 0.0, "verify": 0.0}, "finish_reason": None}
        yield trace
        for step in range(6 if drafter is None else 2):
            order.append("plain" if drafter is None else "drafted")
            trace["seconds"]["verify"] += 1 if drafter is None else 3
            trace["finish_reason"] = "length" if step == (5 if drafter is None else 1) else None
            yield trace

    monkeypatch.setattr(racing, "decode_trace", lane)
    for _ in race(None, "drafts", "Once", EXACT):
        pass
    warm_up, raced = order[:8], order[8:]
    assert warm_up == ["plain"] * 6 + ["drafted"] * 2
    assert raced == ["plain", "drafted", "plain", "plain", "plain", "drafted", "plain", "plain"]


def test_the_cost_of_a_round_explains_the_speed_of_the_rounds():
    _, (plain, drafted) = finished()
    for lane, draft, verify in ((plain, 0.0, 0.010), (drafted, 0.002, 0.014)):
        for round_ in lane["rounds"]:
            round_["seconds"] = {"draft": draft, "verify": verify}
        rounds = len(lane["rounds"])
        lane["seconds"] |= {"prefill": 0.1, "draft": rounds * draft, "verify": rounds * verify}
    won = outcome(plain, drafted)
    spent = won["round"]
    assert (spent["draft"], spent["pass"], spent["cost"]) == pytest.approx((0.2, 1.4, 1.6))
    assert spent["tokens"] == pytest.approx(39 / len(drafted["rounds"])) and spent["milliseconds_per_plain_pass"] == pytest.approx(10)
    rounds_alone = (clock(plain) - 0.1) / (clock(drafted) - 0.1)
    assert rounds_alone == pytest.approx(spent["tokens"] / spent["cost"])
    assert won["speed_ratio"] == pytest.approx(clock(plain) / clock(drafted))


def test_a_race_is_plain_json_and_its_lanes_add_up(tmp_path):
    trunk, (plain, drafted) = finished()
    raced = result(trunk, plain, drafted)
    for lane, row, trace in zip(raced["lanes"], raced["outcome"]["lanes"], (plain, drafted)):
        tokens = [lane["prefill"]["token"], *(token for round_ in lane["rounds"] for token in round_["tokens"])]
        assert tokens == trace["output"]["tokens"] and len(tokens) == row["new_tokens"]
        assert lane["prefill"]["seconds"] + sum(round_["draft"] + round_["verify"] for round_ in lane["rounds"]) == pytest.approx(row["seconds"])
    assert raced["lanes"][0]["family"] == "none" and raced["provenance"]["revision"] == trunk.fingerprint
    assert any("identical" in line for line in summary(raced))


def test_a_run_that_ends_in_its_prefill_has_no_rounds_to_explain():
    trunk, (plain, drafted) = finished(settings=replace(EXACT, max_new_tokens=1))
    won = outcome(plain, drafted)
    assert won["round"] is None and [lane["passes"] for lane in won["lanes"]] == [1, 1]
    assert summary(result(trunk, plain, drafted))


def test_the_command_names_what_differs_from_the_defaults():
    written = command("It's 5", Settings(rule="ratio", num_draft_tokens=8, raw=True), "float32")
    assert written == """python -m mtviz race --prompt 'It'"'"'s 5' --num-draft-tokens 8 --rule ratio --raw --dtype float32"""
    assert command("a", Settings(rule="match"), "bfloat16") == "python -m mtviz race --prompt a"
