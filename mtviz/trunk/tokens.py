"""Text to ids and back, exactly: typed control tokens stay text, and every id has its bytes."""

from __future__ import annotations

import hashlib
import re
from typing import Iterable, Sequence

from tokenizers import decoders
from transformers import PreTrainedTokenizerBase


class Tokens:
    """A tokenizer's ids, their bytes, and prompts in the chat template. `size` is the highest id + 1."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self._pieces = {index: piece for piece, index in tokenizer.get_vocab().items()}
        self._literal = {index: added.content for index, added in tokenizer.added_tokens_decoder.items()}
        self._byte_level = isinstance(tokenizer.backend_tokenizer.decoder, decoders.ByteLevel)
        self.size = max(self._pieces) + 1
        self.hash = _hash(self._pieces)

    def missing_ids(self) -> list[int]:
        """Ids below `size` that stand for no token."""
        return [index for index in range(self.size) if index not in self._pieces]

    def encode(self, prompt: str, raw: bool = False) -> list[int]:
        """Ids of a prompt: one user turn of the chat template and the start of the answer, or the bare text if `raw`.

        Control tokens typed in the prompt are text. Other text gets the ids that `apply_chat_template` gives.
        """
        if raw or not self.tokenizer.chat_template:
            return self.tokenizer(prompt, split_special_tokens=True)["input_ids"]
        before, after = self._template_around(prompt)
        # The pieces next to the prompt are tokenised together with it: a line break before a space is one token.
        head, lead = _split_after_last(before, self._literal.values())
        tail, rest = _split_before_first(after, self._literal.values())
        return self._plain(head) + self._plain(lead + prompt + tail, as_text=True) + self._plain(rest)

    def _template_around(self, prompt: str) -> tuple[str, str]:
        """What the chat template puts before and after a user's text, without ever parsing that text."""
        marker = "user text"
        while marker in prompt or marker in self.tokenizer.chat_template:
            marker += "."
        turn = [{"role": "user", "content": marker}]
        rendered = self.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        before, _, after = rendered.partition(marker)
        return before, after

    def _plain(self, text: str, as_text: bool = False) -> list[int]:
        if not text:
            return []
        return self.tokenizer(text, add_special_tokens=False, split_special_tokens=as_text)["input_ids"]

    def bytes_of(self, token_id: int) -> bytes:
        """The exact bytes of one token; a control token's are its name. Raises KeyError for an id without a token."""
        if token_id in self._literal:
            return self._literal[token_id].encode()
        piece = self._pieces[token_id]
        if self._byte_level:
            return bytes(BYTE_OF[character] for character in piece)
        if byte := re.fullmatch(r"<0x([0-9A-F]{2})>", piece):
            return bytes.fromhex(byte[1])
        return piece.replace("\u2581", " ").encode()

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, control tokens by name; incomplete characters become U+FFFD."""
        return b"".join(self.bytes_of(int(i)) for i in ids).decode("utf-8", errors="replace")


def _hash(pieces: dict[int, str]) -> str:
    digest = hashlib.sha256()
    for index in sorted(pieces):
        digest.update(f"{index}\t{pieces[index]}\n".encode())
    return digest.hexdigest()


def _split_after_last(text: str, marks: Iterable[str]) -> tuple[str, str]:
    cut = max((text.rfind(mark) + len(mark) for mark in marks if mark in text), default=0)
    return text[:cut], text[cut:]


def _split_before_first(text: str, marks: Iterable[str]) -> tuple[str, str]:
    cut = min((text.find(mark) for mark in marks if mark in text), default=len(text))
    return text[:cut], text[cut:]


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte (Radford et al. 2019), inverted."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


BYTE_OF = _byte_alphabet()
