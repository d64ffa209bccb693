"""The Trace: its published schema, what it refuses, and its counts."""

import copy
import json
import math
import typing

import jsonschema
import pytest
from fakes import ScriptedDrafter
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import VOCAB, new_drafter, new_trunk, record

from mtviz import trace as trace_module
from mtviz.decoding.record import decode_trace
from mtviz.settings import BOUNDS, RULES, Settings
from mtviz.text import Token
from mtviz.trace import TraceError, counts, dumps, loads, schema, validate

# --- the schema and the shapes in the code are one -----------------------------------------------------------------------

SHAPES = {
    "candidate": trace_module.Candidate,
    "share": trace_module.Share,
    "draft": trace_module.Draft,
    "after": trace_module.After,
    "emitted": trace_module.Emitted,
    "round": trace_module.Round,
    "prefill": trace_module.Prefill,
    "model": trace_module.ModelInfo,
    "tokenized_text": trace_module.TokenizedText,
    "token": Token,
}


def object_schemas():
    """Every object in the schema, beside the TypedDict that it describes."""
    defs = schema()["$defs"]
    return [
        *((defs[name], shape) for name, shape in SHAPES.items()),
        (schema(), trace_module.Trace),
        (schema()["properties"]["seconds"], trace_module.Seconds),
        (defs["round"]["properties"]["cache"], trace_module.CacheLengths),
        (defs["round"]["properties"]["seconds"], trace_module.RoundSeconds),
    ]


@pytest.mark.parametrize("described, shape", object_schemas(), ids=lambda value: getattr(value, "__name__", "schema"))
def test_schema_and_typed_dicts_have_the_same_keys(described, shape):
    hints = typing.get_type_hints(shape, include_extras=True)
    assert set(described["properties"]) == set(hints)
    assert set(described["required"]) == {key for key, hint in hints.items() if typing.get_origin(hint) is not typing.NotRequired}
    assert described["additionalProperties"] is False


def test_every_definition_of_the_schema_is_checked():
    assert set(schema()["$defs"]) == {*SHAPES, "settings", "prob", "seconds_value"}


def test_schema_and_settings_have_the_same_bounds():
    described = schema()["$defs"]["settings"]
    # Traces that were recorded before there was a second trunk name none.
    assert set(described["properties"]) == {*described["required"], "model"} == set(Settings().to_dict())
    for name, bound in BOUNDS.items():
        entry = described["properties"][name]
        assert entry["type"] == ("integer" if bound.integer else "number")
        assert entry["maximum"] == bound.high
        assert entry["exclusiveMinimum" if bound.low_open else "minimum"] == bound.low
    assert tuple(described["properties"]["rule"]["enum"]) == RULES


def test_schema_and_code_have_the_same_choices_and_limits():
    defs = schema()["$defs"]
    assert tuple(defs["draft"]["properties"]["verdict"]["enum"]) == typing.get_args(trace_module.Verdict)
    assert {*schema()["properties"]["finish_reason"]["enum"]} == {*typing.get_args(trace_module.FinishReason), None}
    assert defs["round"]["properties"]["drafts"]["maxItems"] == defs["draft"]["properties"]["position"]["maximum"] == BOUNDS["num_draft_tokens"].high
    assert schema()["properties"]["rounds"]["maxItems"] >= BOUNDS["max_new_tokens"].high
    for shape, key in [("draft", "top_draft"), ("draft", "top_target"), ("draft", "residual"), ("after", "top_target"), ("prefill", "top_target")]:
        assert defs[shape]["properties"][key]["maxItems"] == trace_module.TOP


# --- what is taken and what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", [{"temperature": 0.0}, {"temperature": 1.0}, {"temperature": 0.7, "top_k": 3, "top_p": 0.9}])
def test_what_the_engine_writes_is_valid_and_survives_json(rule, law):
    trace = record(seed=1, rule=rule, **law)
    assert loads(dumps(validate(trace))) == trace


def test_every_stage_of_a_growing_trace_is_valid():
    for trace in decode_trace(new_trunk(), new_drafter(), "Once", Settings(temperature=1.0)):
        validate(trace)


def set_at(*path, value):
    def spoil(trace):
        place = trace
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return spoil


def drop(*path):
    def spoil(trace):
        place = trace
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return spoil


JUNK = {
    "another schema number": set_at("schema", value=2),
    "a missing key": drop("rounds"),
    "an unknown key": set_at("extra", value=1),
    "an unknown verdict": set_at("rounds", 0, "drafts", 0, "verdict", value="maybe"),
    "a probability above 1": set_at("rounds", 0, "drafts", 0, "target_prob", value=1.5),
    "a negative probability": set_at("rounds", 0, "drafts", 0, "draft_prob", value=-0.1),
    "u of 1": set_at("rounds", 0, "drafts", 0, "u", value=1.0),
    "NaN": set_at("rounds", 0, "drafts", 0, "target_prob", value=math.nan),
    "infinity": set_at("rounds", 0, "drafts", 0, "ratio", value=math.inf),
    "endless seconds": set_at("seconds", "total", value=math.inf),
    "seconds of 10**400": set_at("seconds", "total", value=10**400),
    "text for a number": set_at("seconds", "load", value="0"),
    "true for a number": set_at("rounds", 0, "index", value=True),
    "a set": set_at("rounds", value={1}),
    "half a surrogate pair": set_at("output", "text", value="\ud83d"),
    "bytes that are no hex": set_at("prompt", "tokens", 0, "bytes", value="<b>"),
    "a huge token id": set_at("prompt", "tokens", 0, "id", value=2**40),
    "a long text": set_at("prompt", "text", value="x" * 400_001),
    "a threshold of 0": set_at("settings", "threshold", value=0),
    "a missing token": drop("rounds", 0, "drafts", 0, "token"),
    "no list of rounds": set_at("rounds", value={}),
    "nine drafts": lambda trace: trace["rounds"][0]["drafts"].extend([trace["rounds"][0]["drafts"][0]] * 9),
}


@pytest.mark.parametrize("junk", JUNK)
def test_junk_is_refused(junk):
    trace = copy.deepcopy(record())
    validate(trace)
    JUNK[junk](trace)
    with pytest.raises(TraceError) as caught:
        validate(trace)
    assert len(str(caught.value)) < 400
    try:
        text = json.dumps(trace)  # as some other program would write it, NaN and all
    except TypeError:
        return
    with pytest.raises(TraceError):
        loads(text)


@pytest.mark.parametrize("junk", JUNK)
def test_the_published_schema_says_the_same_to_any_other_reader(junk):
    """Except for what plain JSON already forbids."""
    trace = copy.deepcopy(record())
    JUNK[junk](trace)
    other_reader = jsonschema.Draft202012Validator(schema())
    if junk not in ("NaN", "infinity", "endless seconds", "a set", "half a surrogate pair"):
        assert not other_reader.is_valid(trace)


@st.composite
def spoiled_traces(draw):
    """A small Trace with one place in it, at any depth, replaced or taken away."""
    trace = copy.deepcopy(SMALL)
    place = trace
    while True:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], (dict, list)) or not place[key] or draw(st.integers(0, 3)) == 0:
            break
        place = place[key]
    if draw(st.booleans()):
        del place[key]
    else:
        place[key] = draw(st.sampled_from([None, True, -1, 0, 1, 7, 2**31, 0.5, -0.5, 1.5, "", "ab", "abc", "ratio", [], {}, [1], {"id": 1, "text": ""}]))
    return trace


SMALL = record(seed=1, max_new_tokens=4, num_draft_tokens=2)


@given(spoiled_traces())
@settings(max_examples=100)
def test_the_compiled_schema_and_jsonschema_agree(trace):
    try:
        validate(trace)
        taken = True
    except TraceError:
        taken = False
    assert taken is jsonschema.Draft202012Validator(schema()).is_valid(trace)


def test_the_schema_bounds_what_a_stranger_can_send():
    """Every text and list has a greatest length, and no object takes unknown keys."""
    jsonschema.Draft202012Validator.check_schema(schema())
    nodes = [schema()]
    while nodes:
        node = nodes.pop()
        kind = node.get("type")
        assert kind != "string" or "maxLength" in node
        assert kind != "array" or "maxItems" in node
        assert kind != "object" or node["additionalProperties"] is False
        nodes += [*node.get("properties", {}).values(), *node.get("$defs", {}).values(), *node.get("anyOf", [])]
        nodes += [node["items"]] if "items" in node else []


def test_a_refusal_names_the_place():
    trace = copy.deepcopy(record())
    trace["rounds"][1]["drafts"][0]["verdict"] = "maybe"
    with pytest.raises(TraceError, match=r"rounds\[1\]\.drafts\[0\]\.verdict must be one of"):
        validate(trace)


@pytest.mark.parametrize("value", [None, [], {}, 1, "text"])
def test_what_is_no_object_of_a_trace_is_refused(value):
    with pytest.raises(TraceError):
        validate(value)


@pytest.mark.parametrize("text", ["", "{", "nul", "[" * 100_000, "1e999", "NaN", '{"schema": 1}', "9" * 5000, "\x00"])
def test_text_that_is_no_trace_is_refused(text):
    with pytest.raises(TraceError):
        loads(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused_in_json_too(number):
    trace = copy.deepcopy(record())
    trace["seconds"]["total"] = 123456
    with pytest.raises(TraceError):
        loads(dumps(trace).replace("123456", number))


def test_a_trace_that_is_too_long_is_refused_unread(monkeypatch):
    monkeypatch.setattr(trace_module, "MAX_TRACE_BYTES", 1000)
    with pytest.raises(TraceError, match="at most 1000"):
        loads("x" * 1001)


def test_dumps_never_writes_nan():
    trace = copy.deepcopy(record())
    trace["seconds"]["total"] = math.nan
    with pytest.raises(ValueError):
        dumps(trace)


# --- counting ------------------------------------------------------------------------------------------------------------


def hand_made(*rounds, prefill=True, seconds=2.0):
    """A Trace with the fields that counting reads. A round is its verdicts by their first letter, "+" where one token more is emitted."""
    names = {"a": "accepted", "r": "rejected", "u": "unjudged", "d": "discarded"}
    trace = {"prefill": {} if prefill else None, "rounds": [], "seconds": {"total": seconds}, "output": {"tokens": [{}] * prefill}}
    for verdicts in rounds:
        drafts = [{"verdict": names[letter], "bias_tv": {"a": 0.2, "r": 0.4}.get(letter)} for letter in verdicts.rstrip("+")]
        trace["rounds"].append({"drafts": drafts, "emitted": {} if "+" in verdicts else None})
        trace["output"]["tokens"] += [{}] * (verdicts.count("a") + verdicts.count("+"))
    return trace


def test_counts_by_hand():
    result = counts(hand_made("aaru+", "aaaa+", "+", "r+", "aadd"))
    assert (result["rounds"], result["passes"], result["new_tokens"]) == (5, 6, 1 + 3 + 5 + 1 + 1 + 2)
    assert (result["drafted"], result["judged"], result["accepted"]) == (4 + 4 + 1 + 2, 3 + 4 + 1 + 2, 2 + 4 + 2)
    assert result["acceptance_rate"] == 8 / 11
    assert result["mean_acceptance_length"] == 12 / 5  # the prefill's token is in no round
    assert result["tokens_per_second"] == 13 / 2.0
    assert result["mean_bias_tv"] == pytest.approx((8 * 0.2 + 2 * 0.4) / 10)
    assert result["conditional_acceptance"] == [3 / 4, 3 / 3, 1 / 2, 1 / 1]
    assert result["survival"] == [3 / 4, 3 / 3, 1 / 2, 1 / 2]


def test_survival_is_the_product_of_the_conditionals_only_where_lengths_are_equal():
    equal = counts(hand_made("aar+", "aru+", "aaa+", "ruu+"))
    for position in range(3):
        assert equal["survival"][position] == pytest.approx(math.prod(equal["conditional_acceptance"][: position + 1]))
    unequal = counts(hand_made("a+", "a+", "ru+", "aa+"))
    assert unequal["conditional_acceptance"] == [3 / 4, 1.0]
    assert unequal["survival"] == [3 / 4, 1 / 2]


def test_0_over_0_is_null():
    result = counts(hand_made(prefill=False, seconds=0.0))
    assert [result[key] for key in ("acceptance_rate", "mean_acceptance_length", "tokens_per_second", "mean_bias_tv")] == [None] * 4
    assert (result["conditional_acceptance"], result["survival"]) == ([], [])
    plain = counts(hand_made("+", "+"))
    assert plain["acceptance_rate"] is None and plain["mean_acceptance_length"] == 1.0
    discarded_only = counts(hand_made("ad", "r+"))
    assert discarded_only["conditional_acceptance"] == [1 / 2, None] and discarded_only["survival"] == [1 / 2, None]


def test_field_F12_tokens_after_the_end_token_count_nowhere():
    for seed in range(100):
        greedy = new_trunk(seed, end_ids=[]).greedy(new_trunk().encode("Once"), 30)
        if greedy[6] not in greedy[:6]:
            break
    trunk = new_trunk(seed, end_ids=[greedy[6]])
    drafter = ScriptedDrafter(VOCAB, script=lambda sequence, k: trunk.greedy(sequence, k))
    result = counts(record(trunk=trunk, drafter=drafter, rule="match", temperature=0.0, num_draft_tokens=4))
    assert (result["new_tokens"], result["rounds"], result["mean_acceptance_length"]) == (7, 2, 3.0)
    assert (result["drafted"], result["judged"], result["accepted"], result["acceptance_rate"]) == (5, 5, 5, 1.0)
    assert result["conditional_acceptance"] == result["survival"] == [1.0] * 4


@pytest.mark.parametrize("rule", RULES)
def test_counts_agree_with_the_tokens_that_were_emitted(rule):
    trace = record(seed=2, rule=rule)
    result = counts(trace)
    in_rounds = sum(len([d for d in round_["drafts"] if d["verdict"] == "accepted"]) + (round_["emitted"] is not None) for round_ in trace["rounds"])
    assert result["new_tokens"] == len(trace["output"]["tokens"]) == 1 + in_rounds
    assert result["mean_acceptance_length"] == in_rounds / len(trace["rounds"])
    assert result["passes"] == len(trace["rounds"]) + 1
