"""Recording: every number in the Trace is the number that the engine judged by."""

import math

import pytest
import torch
from fakes import ScriptedDrafter, ScriptedTrunk, prefix_law
from recorded import END, new_drafter, new_trunk, record

from mtviz.decoding.loop import PrefillStep, RoundStep, decode
from mtviz.decoding.record import decode_trace
from mtviz.settings import RULES, Settings, SettingsError
from mtviz.text import join
from mtviz.trace import TOP, dumps

LAWS = [{"temperature": 0.0}, {"temperature": 1.0}, {"temperature": 0.7, "top_k": 4, "top_p": 0.9}]


def without_seconds(value):
    """The Trace but for `seconds` and `host`."""
    if isinstance(value, dict):
        return {key: without_seconds(entry) for key, entry in value.items() if key not in ("seconds", "host")}
    return [without_seconds(entry) for entry in value] if isinstance(value, list) else value


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", LAWS)
def test_the_trace_holds_the_numbers_of_the_engine(rule, law):
    settings = Settings(rule=rule, seed=5, epsilon=0.2, **law)
    *_, trace = decode_trace(new_trunk(5), new_drafter(5), "Once", settings)
    first, *steps = decode(new_trunk(5), new_drafter(5), new_trunk().encode("Once"), settings)
    assert isinstance(first, PrefillStep) and trace["prefill"]["token"]["id"] == first.token
    assert trace["prefill"]["prob"] == float(first.probs[0, first.token])
    for round_, step in zip(trace["rounds"], steps, strict=True):
        assert (round_["cache"]["before"], round_["cache"]["peak"], round_["cache"]["after"]) == step.cache_lengths
        for i, (draft, id_) in enumerate(zip(round_["drafts"], step.proposal.tokens, strict=True)):
            assert (draft["position"], draft["offset"], draft["token"]["id"]) == (i + 1, i + 2, id_)
            assert draft["draft_prob"] == float(step.proposal.draft_probs[i, id_])
            assert draft["raw_draft_prob"] == float(step.proposal.raw_draft_probs[i, id_])
            assert draft["target_prob"] == float(step.probs[i, id_])
            assert draft["raw_target_prob"] == float(step.raw_probs[i, id_])
            assert draft["ratio"] == draft["target_prob"] / draft["draft_prob"]
            assert (draft["u"], draft["entropy"], draft["trunk_token"]["id"]) == (step.uniforms[i], step.entropies[i], step.trunk_tokens[i])
            assert draft.get("ends", False) is (id_ == END)
            check_gate(draft, rule, settings)
        assert round_["after"]["trunk_token"]["id"] == step.trunk_tokens[-1]
        assert round_["after"]["entropy"] == step.entropies[-1]
        if round_["emitted"] is not None:
            law_at = step.probs[step.verification.accepted]
            assert round_["emitted"]["prob"] == float(law_at[round_["emitted"]["token"]["id"]]) > 0


def check_gate(draft, rule, settings):
    """The notch on screen and the verdict beside it agree."""
    if rule == "match" or (rule == "speculative" and settings.temperature == 0):
        assert draft["gate"] is None
        reached = draft["token"]["id"] == draft["trunk_token"]["id"]
    else:
        reached = draft["target_prob"] >= draft["gate"]
    if draft["verdict"] in ("accepted", "rejected"):
        assert reached is (draft["verdict"] == "accepted")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", LAWS)
def test_bias_is_there_exactly_for_judged_positions(rule, law):
    biases = []
    for seed in range(4):
        for round_ in record(seed=seed, rule=rule, epsilon=0.2, **law)["rounds"]:
            for draft in round_["drafts"]:
                judged = draft["verdict"] in ("accepted", "rejected")
                assert (draft["bias_tv"] is not None) is judged
                if judged:
                    biases.append(draft["bias_tv"])
                if judged and law["temperature"] == 0:
                    wrong = draft["verdict"] == "accepted" and draft["token"] != draft["trunk_token"]
                    assert draft["bias_tv"] == (1.0 if wrong else 0.0)
    if rule in ("speculative", "match"):
        assert max(biases) <= 1e-6
    else:
        assert max(biases) > 0.01


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", LAWS)
def test_the_recovery_law_stands_at_the_rejected_position_only(rule, law):
    seen = 0
    for seed in range(4):
        for round_ in record(seed=seed, rule=rule, epsilon=0.2, **law)["rounds"]:
            for draft in round_["drafts"]:
                assert ("residual" in draft) is (draft["verdict"] == "rejected")
                if draft["verdict"] != "rejected":
                    continue
                shares = {share["token"]["id"]: share["prob"] for share in draft["residual"]}
                assert 0 < sum(shares.values()) <= 1 + 1e-12 and all(prob > 0 for prob in shares.values())
                if law["temperature"] == 0:
                    assert shares == {draft["trunk_token"]["id"]: 1.0}
                if rule in ("speculative", "match"):
                    assert round_["emitted"]["token"]["id"] != draft["token"]["id"] or draft["draft_prob"] < 1
                seen += 1
    assert seen > 10


def test_the_top_of_a_law_is_its_largest_entries_in_order():
    trunk = ScriptedTrunk(prefix_law(40, 3), 40)
    trace = record(trunk=trunk, drafter=ScriptedDrafter(40, law=prefix_law(40, 4)), top_k=5)
    round_ = trace["rounds"][0]
    context = [piece["id"] for piece in trace["prompt"]["tokens"]] + [trace["prefill"]["token"]["id"]]
    law = trunk.probs(context)
    top = round_["drafts"][0]["top_target"]
    assert len(top) == TOP
    assert [entry["raw_prob"] for entry in top] == pytest.approx(sorted(law, reverse=True)[:TOP], abs=1e-9)
    assert [entry["raw_prob"] for entry in top] == pytest.approx([law[entry["token"]["id"]] for entry in top], abs=1e-9)
    assert [entry["prob"] > 0 for entry in top] == [True] * 5 + [False] * 3  # after top-k 5


def test_ids_that_are_impossible_are_no_candidates():
    law = [0.5, 0.5, 0.0, 0.0]
    trace = record(trunk=ScriptedTrunk(lambda prefix: law, 4), drafter=ScriptedDrafter(4, law=lambda prefix: law))
    assert {entry["token"]["id"] for entry in trace["rounds"][0]["drafts"][0]["top_target"]} == {0, 1}


@pytest.mark.parametrize("rule", RULES)
def test_field_F13_equal_settings_and_seed_give_an_equal_trace(rule):
    torch.manual_seed(1)
    first = record(seed=3, rule=rule)
    torch.manual_seed(2)
    assert dumps(without_seconds(record(seed=3, rule=rule))) == dumps(without_seconds(first))
    other = record(trunk=new_trunk(3), drafter=new_drafter(3), seed=4, rule=rule)
    assert without_seconds(other)["output"] != without_seconds(first)["output"]


def test_one_drafter_used_again_records_the_same():
    """F26's kind at this level: nothing of the first run is left in the drafter."""
    drafter = new_drafter(3)
    first, second = (without_seconds(record(seed=3, drafter=drafter)) for _ in range(2))
    assert first == second


def test_a_trace_grows_by_a_round_at_a_time():
    stages = []
    for trace in decode_trace(new_trunk(), new_drafter(), "Once", Settings(temperature=1.0, max_new_tokens=20)):
        stages.append((len(trace["rounds"]), len(trace["output"]["tokens"]), trace["finish_reason"]))
    assert [rounds for rounds, _, _ in stages] == list(range(len(stages)))
    assert stages[0] == (0, 1, None)
    assert all(reason is None for _, _, reason in stages[:-1]) and stages[-1][2] in ("length", "stop")
    tokens = [tokens for _, tokens, _ in stages]
    assert tokens == sorted(set(tokens))


def test_seconds_add_up():
    trace = record()
    seconds = trace["seconds"]
    for part in ("draft", "verify"):
        assert seconds[part] == pytest.approx(math.fsum(round_["seconds"][part] for round_ in trace["rounds"]))
    assert seconds["prefill"] + seconds["draft"] + seconds["verify"] <= seconds["total"]


def test_a_prompt_beyond_the_context_is_refused_before_any_work():
    trunk = new_trunk(context=3)
    with pytest.raises(SettingsError, match="prompt: has 4 tokens; this model's context holds 3"):
        next(decode_trace(trunk, None, "Once", Settings()))
    assert trunk.passes == []


def test_plain_decoding_is_a_trace_too():
    *_, trace = decode_trace(new_trunk(), None, "Once", Settings(drafter="none", max_new_tokens=5))
    assert trace["model"]["family"] == "none" and trace["model"]["heads"] is None
    assert [len(round_["drafts"]) for round_ in trace["rounds"]] == [0] * 4
    assert [round_["emitted"]["kind"] for round_ in trace["rounds"]] == ["bonus"] * 4


class BytesTrunk(ScriptedTrunk):
    """Greedy along `pieces`, whose tokens are spread over bytes as a byte-level tokenizer spreads them."""

    def __init__(self, pieces):
        self.pieces = pieces
        super().__init__(lambda prefix: [float(i == prefix[-1] + 1) for i in range(len(pieces))], len(pieces))

    def encode(self, text, raw=False):
        return [0]

    def token_bytes(self, id_):
        return self.pieces[id_]


def test_field_F14_a_character_over_several_tokens_and_a_rejection_inside_it():
    """"聪明 🙂" in byte pieces. The draft that guesses the second half of 聪 wrongly is withdrawn and leaves no trace in the text."""
    whole = "聪明 🙂".encode()
    pieces = [b"<s>", whole[:2], whole[2:4], whole[4:6], whole[6:7], whole[7:9], whole[9:], b"!"]
    trunk = BytesTrunk(pieces)

    def script(sequence, k):
        right = list(range(sequence[-1] + 1, min(sequence[-1] + 1 + k, len(pieces))))
        return [7, *right[1:]] if sequence[-1] == 1 else right  # after the first two bytes, "!" is guessed

    texts, rejected = [], []
    settings = Settings(rule="match", num_draft_tokens=2, max_new_tokens=6)
    for trace in decode_trace(trunk, ScriptedDrafter(len(pieces), script=script), "go", settings):
        texts.append(trace["output"]["text"])
        rejected += [draft for round_ in trace["rounds"][-1:] for draft in round_["drafts"] if draft["verdict"] == "rejected"]
        assert trace["output"]["text"] == join(trace["output"]["tokens"])
    assert rejected[0]["token"] == {"id": 7, "text": "!"}
    assert texts[0] == "" and texts[-1] == "聪明 🙂"  # half a character is held back, not shown as a replacement sign
    assert all("聪明 🙂".startswith(text) for text in texts)
    assert trace["output"]["tokens"][0] == {"id": 1, "text": "", "bytes": whole[:2].hex()}


def test_an_end_token_is_no_part_of_the_text():
    trunk = ScriptedTrunk(lambda prefix: [0.0, 0.0, 1.0] if len(prefix) > 5 else [0.0, 1.0, 0.0], 3, end_ids=[2])
    *_, trace = decode_trace(trunk, None, "Once", Settings())
    assert trace["finish_reason"] == "stop" and trace["output"]["tokens"][-1] == {"id": 2, "text": "<2>"}
    assert trace["output"]["text"] == "<1>" * 2


def test_the_steps_are_never_changed_by_recording():
    settings = Settings(temperature=1.0, rule="speculative")
    for step in decode(new_trunk(), new_drafter(), [1, 2, 3], settings):
        if isinstance(step, RoundStep):
            assert torch.allclose(step.probs.sum(-1), torch.ones(len(step.probs), dtype=torch.float64))
