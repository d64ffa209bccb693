"""`python -m mtviz corpus`: text for training, written by the trunk itself from words of its own vocabulary.

A batch of documents is a pure function of the seed and its number, and lies in a file of its own until all are there, so that an
interrupted run goes on where it stopped. Variety comes from the prompts: a wording of one of the kinds that people type, filled with
words drawn from the tens of thousands that are single tokens, or a question that the trunk writes in the user's place, as in Magpie
(Xu et al. 2024), which is spread as the questions that it was tuned on.
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
from torch import Tensor
from tqdm import tqdm

from mtviz.trunk import Trunk, load_trunk
from mtviz.trunk.kernel import CompiledLlama
from mtviz.trunk.lean import LeanCache

TEMPERATURES = (0.0, 0.6, 0.8, 1.0)
TOP_P = 0.95
LOOP_NGRAM = 12
RAW_SHARE = 0.15  # of the documents begin as plain text instead of a chat turn
SELF_SHARE = 0.4  # of them answer a question of the trunk's own
QUESTION_TOKENS = 64
TOGETHER = 24  # documents that share a pass of the kernel

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
    "Continue this story: the {0} had been lost for {2} days when somebody found a {1}",
    "Tell a funny tale in which a {0} meets a {1}, and give both of them names.",
    "Write the opening scene of a mystery about a missing {0}.",
    "How does a {0} work?",
    "When was {0} first used, and by whom?",
    "Where in the world is {0} found, and why there?",
    "Who is famous for {0}?",
    "Write a JavaScript function that sorts a list of {0} by {1}.",
    "Write a Python class {0} with a method that returns its {1}.",
    "How can I count the lines with {0} in a text file from the command line?",
    "What does this code do?\nfor i in range({2}):\n    print('{0}', i)",
    "Write an SQL table for {0} and a query that lists every {1}.",
    "Show a web page in HTML with a heading about {0} and a table of {1}.",
    "Write a letter of complaint to a shop about a broken {0}.",
    "Write a short message that invites my friends to a {0} evening.",
    "Write a note to my boss: I will be late because of the {0}.",
    "Thank my aunt in a few lines for the {0}.",
    "What is {2} plus {3}?",
    "Multiply {2} by {3} and show how.",
    "A box holds {2} pieces of {0}. How many pieces are in {3} boxes?",
    "There are {2} people, and each needs {3} grams of {0}. How much is that in all?",
    "What is {3} percent of {2}?",
    "Translate into Spanish: my {0} is next to the {1}.",
    "Plan a meal for {3} people with {0}.",
)
OPENINGS = (
    "The {0}", "{0} and {1}", "In the {0}, the {1}", "A {0} is", "When the {0}", "There was once a {0}",
    "def {0}_{1}(", "import {0}\n\nclass", "Dear {0},\n\n", "# How to {0}\n\n",
)  # fmt: skip
CODE = ("def ", "import ")


class Document(NamedTuple):
    """Ids, how many of them were given, the sampling temperature of the others, and `chat`, `raw` or `self` (a question of the trunk's own)."""

    tokens: list[int]
    prompt_len: int
    temperature: float
    kind: str


def vocabulary_words(trunk: Trunk) -> list[str]:
    """Plain words that are one token each: a space and four or more lower-case ASCII letters. Sorted."""
    pieces = (trunk.token_bytes(i) for i in sorted(trunk.tokenizer.get_vocab().values()))
    return sorted({piece[1:].decode() for piece in pieces if re.fullmatch(rb" [a-z]{4,}", piece)})


def prompts(trunk: Trunk, words: Sequence[str], count: int, dice: np.random.Generator) -> list[tuple[list[int], str]]:
    """`count` prompts as (ids, kind). A trunk without a chat template has no turn of the user to write."""
    opening = os.path.commonprefix([trunk.encode("a"), trunk.encode("b")])
    own = SELF_SHARE if opening else 0.0
    kinds = dice.choice(["raw", "self", "chat"], count, p=[RAW_SHARE, own, 1 - RAW_SHARE - own])
    asked = iter(questions(trunk, opening, int((kinds == "self").sum()), int(dice.integers(2**62))))
    chosen = []
    for kind in kinds.tolist():
        wordings = OPENINGS if kind == "raw" else WORDINGS
        text = wordings[dice.integers(len(wordings))].format(*dice.choice(words, 2), *dice.integers(2, [1000, 100]))
        if kind == "self":
            text = next(asked)
        elif not text.startswith(CODE):
            text = text[0].upper() + text[1:]
        chosen.append((trunk.encode(text, raw=kind == "raw"), kind))
    return chosen


def questions(trunk: Trunk, opening: list[int], count: int, seed: int) -> list[str]:
    """`count` turns of a user, written by the trunk after `opening` at temperature 1. An empty one stands for the trunk's silence."""
    written = _write(trunk, [opening] * count, QUESTION_TOKENS, 1.0, seed)
    return [trunk.tokenizer.decode(new, skip_special_tokens=True).strip() for new in written]


def generate_batch(
    trunk: Trunk, words: Sequence[str], batch: int, size: int, max_new_tokens: int, seed: int,
    temperatures: Sequence[float] = TEMPERATURES,
) -> list[Document]:  # fmt: skip
    """Batch number `batch`: `size` documents at one temperature, each up to its end token or `max_new_tokens` more."""
    dice = np.random.default_rng((seed, batch))
    temperature = temperatures[batch % len(temperatures)]
    given = prompts(trunk, words, size, dice)
    written = _write(trunk, [ids for ids, _ in given], max_new_tokens, temperature, int(dice.integers(2**62)))
    return [Document(cut_loop([*ids, *new], len(ids)), len(ids), temperature, kind) for (ids, kind), new in zip(given, written)]


@torch.inference_mode()
def _write(trunk: Trunk, given: Sequence[list[int]], max_new_tokens: int, temperature: float, seed: int) -> list[list[int]]:
    """What the trunk writes after each of `given`, with the end token where it wrote one."""
    if not given:
        return []
    write = _by_kernel if isinstance(trunk.lean, CompiledLlama) else _by_transformers
    return write(trunk, given, max_new_tokens, temperature, seed)


def _by_transformers(trunk: Trunk, given: Sequence[list[int]], max_new_tokens: int, temperature: float, seed: int) -> list[list[int]]:
    longest = max(len(ids) for ids in given)
    end = min(trunk.end_ids)
    rows_of_unembedding = trunk.model.get_output_embeddings().weight.shape[0]
    unknown = [*trunk.tokens.missing_ids(), *range(trunk.vocab_size, rows_of_unembedding)]  # ids that the tokenizer lacks
    rows = torch.full((len(given), longest), end)
    mask = torch.zeros(len(given), longest, dtype=torch.long)
    for row, ids in enumerate(given):  # padded on the left, so that all rows go on at the same place
        rows[row, longest - len(ids) :] = torch.tensor(ids)
        mask[row, longest - len(ids) :] = 1
    torch.manual_seed(seed)
    drawn = {"do_sample": True, "temperature": temperature, "top_p": TOP_P, "top_k": 0} if temperature else {"do_sample": False}
    written = trunk.model.generate(
        rows.to(trunk.device), attention_mask=mask.to(trunk.device), max_new_tokens=min(max_new_tokens, trunk.context - longest),
        eos_token_id=sorted(trunk.end_ids), pad_token_id=end, suppress_tokens=unknown or None, **drawn,
    )  # fmt: skip
    rests = written[:, longest:].tolist()
    stops = [next((n for n, token in enumerate(rest) if token in trunk.end_ids), len(rest)) for rest in rests]
    return [rest[: stop + 1] for rest, stop in zip(rests, stops)]


def _by_kernel(trunk: Trunk, given: Sequence[list[int]], max_new_tokens: int, temperature: float, seed: int) -> list[list[int]]:
    """A few at a time: each that ends makes room for the next, and no pass is spent on padding."""
    generator = torch.Generator().manual_seed(seed)
    written: list[list[int]] = [[] for _ in given]
    waiting = list(range(len(given)))
    live: dict[int, LeanCache] = {}
    while waiting or live:
        while waiting and len(live) < TOGETHER:
            live[waiting[0]] = trunk.new_cache()
            if before := given[waiting[0]][:-1]:
                trunk.lean.forward(before, live[waiting[0]])
            del waiting[0]
        hidden = trunk.lean.forward_each([(written[row] or given[row])[-1] for row in live], list(live.values()))
        for row, token in zip(list(live), _draw(trunk.unembed(hidden), temperature, generator)):
            written[row].append(token)
            if token in trunk.end_ids or len(written[row]) == max_new_tokens or live[row].length == trunk.context:
                del live[row]
    return written


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> list[int]:
    """One token for each row of `logits` (n, vocabulary): the likeliest at temperature 0, else drawn from the likeliest that have TOP_P together."""
    if not temperature:
        return logits.argmax(-1).tolist()
    logits = logits - logits.amax(-1, keepdim=True)  # a tiny temperature must not overflow
    law, k = torch.softmax(logits / temperature, dim=-1), 512  # sorting all of them takes longer than the pass
    while (top := law.topk(min(k, law.shape[-1]))).values.sum(-1).min() < TOP_P and k < law.shape[-1]:
        k *= 8
    probs, ids = top
    probs[probs.cumsum(-1) - probs >= TOP_P] = 0
    return ids.gather(-1, torch.multinomial(probs, 1, generator=generator))[:, 0].tolist()


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
    parser.add_argument("--temperatures", type=float, nargs="+", default=TEMPERATURES, metavar="T", help="batches take turns (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trunk", default=None, help="model directory, GGUF file or Hub id")
    parser.add_argument("--device", default=None)
    args = parser.parse_args(argv)
    if args.out.suffix != ".npz" or min(args.documents, args.batch, args.max_new_tokens) < 1 or args.seed < 0:
        parser.error("--out must end in .npz; --documents, --batch and --max-new-tokens must be at least 1, --seed at least 0")
    if not all(0 <= temperature <= 2 for temperature in args.temperatures):
        parser.error("--temperatures must lie between 0 and 2")
    trunk = load_trunk(args.trunk, dtype="bfloat16", device=args.device)
    by_kernel = isinstance(trunk.lean, CompiledLlama)  # which sums in float32, as transformers must be told to
    if not by_kernel:
        trunk = load_trunk(args.trunk, dtype="float32", device=args.device)
    words = vocabulary_words(trunk)
    if len(words) < 2:
        print(f"the vocabulary of {trunk.name} holds no plain words to make prompts from", file=sys.stderr)
        return 2
    # Settings are in the name: parts of another run are never taken for this one's.
    heat = "_".join(f"{temperature:g}" for temperature in args.temperatures)
    name = f"{args.out.stem}-{trunk.fingerprint[:8]}-{args.batch}-{args.max_new_tokens}-{heat}-{args.seed}-{'kernel' if by_kernel else 'transformers'}.parts"
    parts = args.out.with_name(name)
    parts.mkdir(parents=True, exist_ok=True)
    paths = [parts / f"{batch:06}.npz" for batch in range(-(-args.documents // args.batch))]
    for batch, path in enumerate(tqdm(paths, desc="corpus", unit="batch")):
        if not path.exists():
            write_documents(generate_batch(trunk, words, batch, args.batch, args.max_new_tokens, args.seed, args.temperatures), path)
    documents = distinct([document for path in paths for document in read_documents(path)])
    write_documents(documents, args.out)
    print(f"{args.out}: {len(documents)} documents, {sum(len(d.tokens) for d in documents)} tokens")
    return 0
