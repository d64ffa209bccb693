"""`python -m mtviz corpus`: text for training, written by the trunk itself from words of its own vocabulary.

A batch of documents is a pure function of the seed and its number, and lies in a file of its own until all are there, so that an
interrupted run goes on where it stopped. Variety comes from the prompts: a wording, filled with words drawn from the
tens of thousands that are single tokens.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np
import torch
from tqdm import tqdm

from mtviz.trunk import Trunk, load_trunk

TEMPERATURES = (0.0, 0.6, 0.8, 1.0)
TOP_P = 0.95
LOOP_NGRAM = 12
RAW_SHARE = 0.15  # of the documents begin as plain text instead of a chat turn

WORDINGS = (
    "Write a short story about {0} and {1}.",
    "What is {0}?",
    "Explain {0} to a child.",
    "How are {0} and {1} related?",
    "Give me five facts about {0}.",
    "Describe {0} in a few sentences.",
    "Write a poem about {0}.",
    "What would you do with {0} and {1}?",
    "List the steps to make {0} from {1}.",
    "Write a letter to a friend about {0}.",
    "Why do people like {0}?",
    "Compare {0} with {1}.",
    "Write a Python function called {0} that uses {1}.",
    "Tell me the history of {0}.",
    "What are the advantages and disadvantages of {0}?",
    "Write a dialogue between {0} and {1}.",
    "Summarize what is known about {0}.",
    "Use the words {0} and {1} in a paragraph.",
    "What is the opposite of {0}?",
    "Give advice on {0} for somebody who knows only {1}.",
    "Write an email about {0} to a colleague.",
    "Make a plan for {0} in three parts.",
    "What does {0} mean in the context of {1}?",
    "Write a news report about {0}.",
)
OPENINGS = ("The {0}", "{0} and {1}", "In the {0}, the {1}", "A {0} is", "When the {0}", "There was once a {0}")


class Document(NamedTuple):
    """Ids, how many of them were given, the sampling temperature, and `chat` or `raw`."""

    tokens: list[int]
    prompt_len: int
    temperature: float
    kind: str


def vocabulary_words(trunk: Trunk) -> list[str]:
    """Plain words that are one token each: a space and four or more lower-case ASCII letters. Sorted."""
    pieces = (trunk.token_bytes(i) for i in sorted(trunk.tokenizer.get_vocab().values()))
    return sorted({piece[1:].decode() for piece in pieces if re.fullmatch(rb" [a-z]{4,}", piece)})


def prompts(trunk: Trunk, words: Sequence[str], count: int, dice: np.random.Generator) -> list[tuple[list[int], str]]:
    """`count` prompts as (ids, kind)."""
    chosen = []
    for _ in range(count):
        kind = "raw" if dice.random() < RAW_SHARE else "chat"
        wordings = OPENINGS if kind == "raw" else WORDINGS
        text = wordings[dice.integers(len(wordings))].format(*dice.choice(words, 2))
        chosen.append((trunk.encode(text[0].upper() + text[1:], raw=kind == "raw"), kind))
    return chosen


@torch.inference_mode()
def generate_batch(trunk: Trunk, words: Sequence[str], batch: int, size: int, max_new_tokens: int, seed: int) -> list[Document]:
    """Batch number `batch`: `size` documents at one temperature, each up to its end token or `max_new_tokens` more."""
    dice = np.random.default_rng((seed, batch))
    temperature = TEMPERATURES[batch % len(TEMPERATURES)]
    given = prompts(trunk, words, size, dice)
    longest = max(len(ids) for ids, _ in given)
    end = min(trunk.end_ids)
    rows_of_unembedding = trunk.model.get_output_embeddings().weight.shape[0]
    unknown = [*trunk.tokens.missing_ids(), *range(trunk.vocab_size, rows_of_unembedding)]  # ids that the tokenizer lacks
    rows = torch.full((size, longest), end)
    mask = torch.zeros(size, longest, dtype=torch.long)
    for row, (ids, _) in enumerate(given):  # padded on the left, so that all rows go on at the same place
        rows[row, longest - len(ids) :] = torch.tensor(ids)
        mask[row, longest - len(ids) :] = 1
    torch.manual_seed(int(dice.integers(2**62)))
    drawn = {"do_sample": True, "temperature": temperature, "top_p": TOP_P, "top_k": 0} if temperature else {"do_sample": False}
    written = trunk.model.generate(
        rows.to(trunk.device), attention_mask=mask.to(trunk.device), max_new_tokens=min(max_new_tokens, trunk.context - longest),
        eos_token_id=sorted(trunk.end_ids), pad_token_id=end, suppress_tokens=unknown or None, **drawn,
    )  # fmt: skip
    documents = []
    for (ids, kind), new in zip(given, written[:, longest:].tolist()):
        stop = next((n for n, token in enumerate(new) if token in trunk.end_ids), len(new))
        kept = cut_loop([*ids, *new[: stop + 1]], len(ids))
        documents.append(Document(kept, len(ids), temperature, kind))
    return documents


def cut_loop(tokens: Sequence[int], prompt_len: int) -> list[int]:
    """`tokens` up to the end of the second occurrence of any twelve generated tokens in a row."""
    seen: dict[tuple[int, ...], int] = {}
    for end in range(prompt_len + LOOP_NGRAM, len(tokens) + 1):
        ngram = tuple(tokens[end - LOOP_NGRAM : end])
        if end - seen.setdefault(ngram, end) >= LOOP_NGRAM:  # an occurrence that overlaps the first one is no repeat yet
            return list(tokens[:end])
    return list(tokens)


def write_documents(documents: Sequence[Document], path: Path) -> None:
    """Write the arrays tokens, doc_len, prompt_len, temp and kind, whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.npz")
    tokens = np.concatenate([np.zeros(0, np.int64), *(np.array(d.tokens) for d in documents)])
    np.savez_compressed(
        partial,
        tokens=tokens.astype(np.uint16 if tokens.max(initial=0) < 2**16 else np.uint32),
        doc_len=np.array([len(d.tokens) for d in documents], np.int32),
        prompt_len=np.array([d.prompt_len for d in documents], np.int32),
        temp=np.array([d.temperature for d in documents], np.float32),
        kind=np.array([d.kind for d in documents], dtype="<U4"),
    )
    partial.replace(path)


def read_documents(path: Path) -> list[Document]:
    with np.load(path) as arrays:
        pieces = np.split(arrays["tokens"].astype(np.int64), np.cumsum(arrays["doc_len"])[:-1]) if len(arrays["doc_len"]) else []
        return [
            Document(piece.tolist(), int(given), float(temperature), str(kind))
            for piece, given, temperature, kind in zip(pieces, arrays["prompt_len"], arrays["temp"], arrays["kind"])
        ]


def distinct(documents: Sequence[Document]) -> list[Document]:
    """Without documents whose tokens came before, nor those in which the trunk wrote nothing but an end token."""
    first = {tuple(d.tokens): d for d in reversed(documents) if len(d.tokens) > d.prompt_len + 1}
    return [d for d in documents if first.get(tuple(d.tokens)) is d]


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m mtviz corpus`: write a corpus file, or go on with one that was interrupted; 2 where the arguments do not fit."""
    parser = argparse.ArgumentParser(prog="python -m mtviz corpus", description="let the trunk write text for training")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="corpus file (.npz)")
    parser.add_argument("--documents", type=int, default=1024, metavar="N", help="about how many (default %(default)s)")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="documents written at once (default %(default)s)")
    parser.add_argument("--max-new-tokens", type=int, default=384, metavar="N", help="(default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trunk", default=None, help="model directory, GGUF file or Hub id")
    parser.add_argument("--device", default=None)
    args = parser.parse_args(argv)
    if args.out.suffix != ".npz" or min(args.documents, args.batch, args.max_new_tokens) < 1 or args.seed < 0:
        parser.error("--out must end in .npz; --documents, --batch and --max-new-tokens must be at least 1, --seed at least 0")
    trunk = load_trunk(args.trunk, dtype="float32", device=args.device)
    words = vocabulary_words(trunk)
    if len(words) < 2:
        print(f"the vocabulary of {trunk.name} holds no plain words to make prompts from", file=sys.stderr)
        return 2
    # Settings are in the name: parts of another run are never taken for this one's.
    name = f"{args.out.stem}-{trunk.fingerprint[:8]}-{args.batch}-{args.max_new_tokens}-{args.seed}.parts"
    parts = args.out.with_name(name)
    parts.mkdir(parents=True, exist_ok=True)
    paths = [parts / f"{batch:06}.npz" for batch in range(-(-args.documents // args.batch))]
    for batch, path in enumerate(tqdm(paths, desc="corpus", unit="batch")):
        if not path.exists():
            write_documents(generate_batch(trunk, words, batch, args.batch, args.max_new_tokens, args.seed), path)
    documents = distinct([document for path in paths for document in read_documents(path)])
    write_documents(documents, args.out)
    print(f"{args.out}: {len(documents)} documents, {sum(len(d.tokens) for d in documents)} tokens")
    return 0
