"""Settings: every bound is held, and every refusal names the field and its bounds."""

import math

import pytest

from mtviz.settings import BOUNDS, CHOICES, MAX_PROMPT_CHARACTERS, Settings, SettingsError, check_number, check_prompt

NAMES = sorted(BOUNDS)
NOT_NUMBERS = [math.nan, math.inf, -math.inf, True, False, "1", "", None, [1], {}, 1j, 10**400, -(10**400), 10**5000]


def refused(name, value):
    with pytest.raises(SettingsError) as caught:
        Settings(**{name: value})
    assert caught.value.field == name
    return str(caught.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", NOT_NUMBERS, ids=lambda value: f"{value!r:.12}" if not isinstance(value, int) or abs(value) < 10**4000 else "huge")
def test_what_is_no_number_in_range_is_refused_by_name(name, value):
    message = refused(name, value)
    assert message.startswith(f"{name}: ") and str(BOUNDS[name]) in message
    assert len(message) < 200


@pytest.mark.parametrize("name", NAMES)
def test_bounds_are_where_they_say(name):
    bound = BOUNDS[name]
    assert getattr(Settings(**{name: bound.high}), name) == bound.high
    tiny = 1 if bound.integer else 1e-9
    refused(name, bound.high + tiny)
    refused(name, bound.low - tiny)
    if bound.low_open:
        refused(name, bound.low)
        assert getattr(Settings(**{name: 1e-9}), name) == 1e-9
    else:
        assert getattr(Settings(**{name: bound.low}), name) == bound.low


@pytest.mark.parametrize("name", NAMES)
def test_the_message_quotes_both_ends(name):
    message = refused(name, BOUNDS[name].high + 1)
    assert f"{BOUNDS[name].low:.0f}" in message and f"{BOUNDS[name].high:.0f}" in message


def test_whole_numbers_come_back_as_int_and_the_others_as_float():
    settings = Settings(num_draft_tokens=4.0, seed=7.0, temperature=1, threshold=1)
    assert type(settings.num_draft_tokens) is int and type(settings.seed) is int
    assert type(settings.temperature) is float and type(settings.threshold) is float
    assert check_number("top_p", 1) == 1.0
    for name in NAMES:
        if BOUNDS[name].integer:
            assert "whole number" in refused(name, BOUNDS[name].low + 0.5)


@pytest.mark.parametrize("name", sorted(CHOICES))
@pytest.mark.parametrize("value", ["", "RATIO", None, 0, ["ratio"], "x" * 10_000])
def test_choices_are_refused_by_name(name, value):
    message = refused(name, value)
    assert all(choice in message for choice in CHOICES[name]) and len(message) < 200


@pytest.mark.parametrize("name", sorted(CHOICES))
def test_every_choice_is_taken(name):
    for choice in CHOICES[name]:
        assert getattr(Settings(**{name: choice}), name) == choice


@pytest.mark.parametrize("value", [1, 0, "true", None])
def test_raw_is_true_or_false(value):
    assert "true or false" in refused("raw", value)


def test_the_defaults_are_the_designs():
    settings = Settings()
    assert (settings.epsilon, settings.delta) == (0.09, 0.3)
    assert (settings.rule, settings.num_draft_tokens, settings.threshold) == ("ratio", 4, 0.5)  # the tutorial's own


def test_mapping_round_trip_and_unknown_names():
    settings = Settings(rule="match", temperature=0.7, top_k=5, top_p=0.9, seed=3)
    assert Settings.from_mapping(settings.to_dict()) == settings
    with pytest.raises(SettingsError, match="num_drafts.*is not a setting.*num_draft_tokens"):
        Settings.from_mapping({"num_drafts": 3})
    with pytest.raises(SettingsError, match="is not a setting"):
        Settings.from_mapping({7: 3})
    with pytest.raises(SettingsError, match="threshold.*above 0 to 1"):
        Settings.from_mapping({"threshold": math.nan})


def test_settings_cannot_be_changed_past_their_bounds():
    with pytest.raises(AttributeError):
        Settings().threshold = 7


@pytest.mark.parametrize("text", ["", "   ", "\n\t\u3000", "\N{NO-BREAK SPACE}"])
def test_field_F10_a_blank_prompt_is_refused_with_a_clear_message(text):
    with pytest.raises(SettingsError, match="^prompt: is blank; write 1 to 4000 characters"):
        check_prompt(text)


def test_prompts_are_returned_unchanged_up_to_the_limit():
    for text in ["a", "  spaced  ", "<|im_end|>", "聪明 🙂", "x" * MAX_PROMPT_CHARACTERS]:
        assert check_prompt(text) == text
    with pytest.raises(SettingsError, match="4001 characters; at most 4000"):
        check_prompt("x" * (MAX_PROMPT_CHARACTERS + 1))


@pytest.mark.parametrize("value", [None, 5, b"bytes", ["a"], math.nan])
def test_prompts_must_be_text(value):
    with pytest.raises(SettingsError, match="^prompt: must be text"):
        check_prompt(value)


def test_half_a_surrogate_pair_is_no_text():
    with pytest.raises(SettingsError, match="surrogate"):
        check_prompt("fine \ud83d not")
