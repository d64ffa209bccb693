"""Tokenised documents that the trunk wrote itself, and the split into training and hold-out."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HOLD_OUT_EVERY = 20  # one document in twenty: 5 %


@dataclass(frozen=True)
class Corpus:
    """Documents laid end to end. Document d is tokens[starts[d]:starts[d + 1]], its first prompt_len[d] ids given text.

    `tokens` int64 (n,); `starts` int64 (documents + 1,); `prompt_len` int64 (documents,); `temperature` float32 (documents,)
    at which each was sampled, NaN where the file does not say; `sha256` of the file.
    """

    path: Path
    tokens: np.ndarray
    starts: np.ndarray
    prompt_len: np.ndarray
    temperature: np.ndarray
    sha256: str

    def __len__(self) -> int:
        return len(self.prompt_len)

    def document(self, index: int) -> np.ndarray:
        return self.tokens[self.starts[index] : self.starts[index + 1]]

    def order(self) -> np.ndarray:
        """All documents in one fixed shuffled order, so that "the first n" is a fair and repeatable sample."""
        return np.random.default_rng(0).permutation(len(self))


def read_corpus(path: str | os.PathLike[str]) -> Corpus:
    """Read an .npz with the arrays tokens, doc_len, prompt_len and perhaps temp. Raises ValueError where they do not fit together."""
    path = Path(path)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    with np.load(path) as arrays:
        missing = {"tokens", "doc_len", "prompt_len"} - set(arrays)
        if missing:
            raise ValueError(f"{path} lacks the array {', '.join(sorted(missing))}")
        tokens, lengths, prompts = (arrays[name].astype(np.int64) for name in ("tokens", "doc_len", "prompt_len"))
        temperature = arrays["temp"] if "temp" in arrays else np.full(len(lengths), np.nan, np.float32)
    if lengths.sum() != len(tokens) or len(prompts) != len(lengths) or (prompts > lengths).any():
        raise ValueError(f"{path}: document lengths {lengths.sum()} do not add up to {len(tokens)} tokens")
    if len(temperature) != len(lengths):
        raise ValueError(f"{path}: {len(temperature)} temperatures for {len(lengths)} documents")
    return Corpus(path, tokens, np.concatenate([[0], np.cumsum(lengths)]), prompts, temperature, sha256)


def split(order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Training and hold-out documents of a shuffled order. A longer prefix of it never moves a document across."""
    held = np.arange(len(order)) % HOLD_OUT_EVERY == 0
    return order[~held], order[held]


def frequent_ids(corpora: list[Corpus], vocab_size: int, count: int) -> np.ndarray:
    """The `count` ids that are generated most often, sorted (ties: lowest id): a trimmed draft vocabulary."""
    counts = np.zeros(vocab_size, np.int64)
    for corpus in corpora:
        offsets = np.arange(len(corpus.tokens)) - np.repeat(corpus.starts[:-1], np.diff(corpus.starts))
        generated = offsets >= np.repeat(corpus.prompt_len, np.diff(corpus.starts))
        counts += np.bincount(corpus.tokens[generated], minlength=vocab_size)
    return np.sort(np.argsort(-counts, kind="stable")[:count])
