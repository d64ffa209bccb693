"""Token pieces for display: bytes in, text out, nothing lost on the way.

A token is a run of bytes, and a character can be spread over several tokens. A piece that is valid UTF-8 on its own
is shown as text; one that is not carries its bytes, so that the page can show them as hex and join them later.
"""

from __future__ import annotations

import codecs
from typing import Iterable, NotRequired, TypedDict


class Token(TypedDict):
    """One token. `bytes` (lower-case hex) is there only where they are not valid UTF-8 alone; `text` is then empty."""

    id: int
    text: str
    bytes: NotRequired[str]


def token(token_id: int, piece: bytes) -> Token:
    try:
        return {"id": token_id, "text": piece.decode("utf-8")}
    except UnicodeDecodeError:
        return {"id": token_id, "text": "", "bytes": piece.hex()}


def piece_bytes(piece: Token) -> bytes:
    return bytes.fromhex(piece["bytes"]) if "bytes" in piece else piece["text"].encode("utf-8")


def join(pieces: Iterable[Token]) -> str:
    """The text of a token sequence. A character still incomplete at the end is held back; bytes that can never become
    a character are written as \\xNN, so that no replacement sign stands for what the model said."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="backslashreplace")
    return decoder.decode(b"".join(piece_bytes(piece) for piece in pieces), final=False)
