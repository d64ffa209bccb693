"""Token pieces: nothing is lost, trimmed, replaced or interpreted on the way to the screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtviz.text import join, piece_bytes, token

REPLACEMENT = "\ufffd"


def cut(data, places):
    """`data` as tokens, cut at `places`."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [token(i, data[start:end]) for i, (start, end) in enumerate(zip(edges, edges[1:]))]


def test_a_piece_that_is_text_is_text_and_one_that_is_not_keeps_its_bytes():
    assert token(7, b" Hello") == {"id": 7, "text": " Hello"}
    assert token(8, "聪".encode()[:2]) == {"id": 8, "text": "", "bytes": "e881"}
    assert token(9, b"") == {"id": 9, "text": ""}


def test_field_F14_a_character_spread_over_tokens_is_whole_in_the_text():
    text = "聪明 🙂"
    for size in (1, 2, 3, 4, 5):
        data = text.encode()
        pieces = [token(i, data[i : i + size]) for i in range(0, len(data), size)]
        assert join(pieces) == text
        assert not any(sign in join(pieces) for sign in (REPLACEMENT, "Ġ", "Ċ"))
        assert all(piece["text"] or piece["bytes"] for piece in pieces)  # each can be shown, as text or as hex


def test_field_F14_a_half_character_is_held_back_until_it_is_whole_or_withdrawn():
    data = "聪明 🙂".encode()
    pieces = [token(i, data[i : i + 1]) for i in range(len(data))]
    shown = [join(pieces[:n]) for n in range(len(pieces) + 1)]
    assert shown == ["", "", "", "聪", "聪", "聪", "聪明", "聪明 ", "聪明 ", "聪明 ", "聪明 ", "聪明 🙂"]
    # The drafts of the second character are rolled back after two of its bytes; another token takes their place.
    assert join([*pieces[:3], token(99, b"!")]) == "聪!"


def test_bytes_that_can_never_be_a_character_are_shown_as_what_they_are():
    assert join([token(0, b"\xff"), token(1, b"ok"), token(2, b"\xe8"), token(3, b"a")]) == r"\xffok\xe8a"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([" Hello", "   ", "\n", "\n\n", "\t", "world"], id="field_F15_spaces"),
        pytest.param(["<restate here>", "a<b & c>d", "<think>", "<|im_end|>", "<!--", "&amp;"], id="field_F16_angle_brackets"),
        pytest.param(["${alert(1)}", "${", "\\u", "{{x}}", "`"], id="field_F17_templates"),
        pytest.param(["مرحبا", " بالعالم", "abc ", "שלום", " 123"], id="field_F18_right_to_left"),
    ],
)
def test_pieces_are_literal(pieces):
    tokens = [token(i, piece.encode()) for i, piece in enumerate(pieces)]
    assert [piece["text"] for piece in tokens] == pieces
    assert join(tokens) == "".join(pieces)


def test_field_F15_six_visible_pieces_and_the_original_text():
    pieces = [" Hello", "   ", "\n", "\n\n", "\t", "world"]
    tokens = [token(i, piece.encode()) for i, piece in enumerate(pieces)]
    assert len([piece for piece in tokens if piece["text"]]) == 6
    assert join(tokens) == " Hello   \n\n\n\tworld"


def test_field_F16_text_after_angle_brackets_is_intact():
    tokens = [token(i, piece.encode()) for i, piece in enumerate(["<!--", " later", " <|im_end|>", " text"])]
    assert join(tokens) == "<!-- later <|im_end|> text"


def test_field_F19_long_text_without_a_space_comes_token_by_token():
    text = "聪明" * 150
    pieces = [token(i, character.encode()) for i, character in enumerate(text)]
    assert all(join(pieces[:n]) == text[:n] for n in range(0, 301, 50))


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_no_byte_is_lost_however_it_is_cut(data, places):
    pieces = cut(data, places)
    assert b"".join(piece_bytes(piece) for piece in pieces) == data
    assert all(piece["text"] == "" for piece in pieces if "bytes" in piece)


@given(st.text("aé聪🙂 \n\u0301\ufffd\u200d<&\x00", max_size=20), st.lists(st.integers(0, 80), max_size=6))
def test_text_is_the_same_however_it_is_cut(text, places):
    assert join(cut(text.encode(), places)) == text


@given(st.binary(max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_no_replacement_sign_is_made_up(data, places):
    assert join(cut(data, places)).count(REPLACEMENT) == data.decode(errors="ignore").count(REPLACEMENT)
