"""Text to train a byte-level model on: checked, cut into documents, one in twenty held out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

import numpy as np

from mtviz.settings import SettingsError
from mtviz.trunk.bytes import END

from .corpus import read_corpus, split

LEAST_BYTES = 1_000
MOST_BYTES = 64_000_000
_USER, _ASSISTANT, _STOP = "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"
AFTER_PROMPT = "\n\n"  # stands between instruction and answer, in the corpora as in decoding


@dataclass(frozen=True)
class Text:
    """`train` and `held`: uint8 (n,), documents end to end, each after an END byte where they come from a corpus.

    `held_documents` are the held-out ones apart; `sha256` is of all bytes.
    """

    train: np.ndarray
    held: np.ndarray
    held_documents: tuple[bytes, ...]
    sha256: str
    documents: int


def check_text(data: bytes, most: int = MOST_BYTES) -> bytes:
    """`data` unchanged, or SettingsError: too short, too long, or not UTF-8 text."""
    allowed = f"{LEAST_BYTES:,} to {most:,} bytes of text are allowed"
    if len(data) < LEAST_BYTES:
        raise SettingsError("text", f"has {len(data):,} bytes; training takes {LEAST_BYTES:,} to {most:,} bytes, a page of text or more")
    if len(data) > most:
        raise SettingsError("text", f"has {len(data):,} bytes; at most {most:,} are allowed")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError("text", f"is not UTF-8 text: byte {error.start:,} does not fit; {allowed}") from None
    if END in data:
        raise SettingsError("text", f"is binary: byte {data.index(END):,} is zero; {allowed}")
    return data


def plain_text(data: bytes, most: int = MOST_BYTES) -> Text:
    """One text, cut into at least twenty pieces of up to 4,096 bytes where it is long enough. Raises SettingsError as `check_text`."""
    data = check_text(data, most)
    size = max(256, min(4096, len(data) // 20))
    return _split([data[at : at + size] for at in range(0, len(data), size)], ends=False)


def corpora_text(paths: Sequence[Path], decode) -> Text:
    """Tokenised corpora as text: a chat's first turn as instruction, blank line, answer; raw documents as they are.

    `decode` turns ids into text, as the tokenizer that made the corpora does.
    """
    documents = []
    for path in paths:
        corpus = read_corpus(path)
        for index in corpus.order():
            text = _readable(decode(corpus.document(index).tolist()))
            if text and "\ufffd" not in text:
                documents.append(text.encode("utf-8").replace(bytes([END]), b""))
    return _split(documents, ends=True)


def _readable(text: str) -> str:
    """Without the chat template."""
    before, user, rest = text.partition(_USER)
    if user:
        instruction, assistant, answer = rest.partition(_ASSISTANT)
        text = instruction.strip() + AFTER_PROMPT + answer.partition(_STOP)[0].strip() if assistant else ""
    return text.partition("<|")[0].strip()


def _split(documents: list[bytes], ends: bool) -> Text:
    """The two streams. The documents are in a fixed shuffled order or pieces of one text; both keep every twentieth back."""
    train, held = ([documents[i] for i in part] for part in split(np.arange(len(documents))))
    end = bytes([END]) if ends else b""
    joined = [np.frombuffer(end + end.join(part) + end, np.uint8) for part in (train, held)]
    return Text(joined[0], joined[1], tuple(held), hashlib.sha256(b"".join(documents)).hexdigest(), len(documents))
