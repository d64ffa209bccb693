"""A scripted trunk and drafters: real interfaces, tiny laws, no weights. The engine under test is the real one."""

from __future__ import annotations

import random
from bisect import bisect_right
from functools import cache
from itertools import accumulate
from typing import Callable, Sequence

import torch

from mtviz.drafting.protocol import Proposal, Sample

Law = Callable[[Sequence[int]], Sequence[float]]


@cache
def prefix_law(vocab_size: int, seed: int, *, sharpness: float = 2.0) -> Law:
    """A law that depends on every token so far, the same in every process."""

    @cache
    def law(prefix: tuple[int, ...]) -> tuple[float, ...]:
        dice = random.Random(f"{seed} {prefix}")
        weights = [dice.random() ** (3 * sharpness) + 1e-3 for _ in range(vocab_size)]
        return tuple(weight / sum(weights) for weight in weights)

    return law


def log(probs: torch.Tensor) -> torch.Tensor:
    """Logits of a law; a token without probability gets a logit that no float64 softmax sees."""
    return probs.clamp_min(1e-300).log().masked_fill(probs == 0, -torch.inf)


class ScriptedCache:
    """Remembers the ids it was fed, so that a test can see exactly what is cached."""

    def __init__(self, ids: Sequence[int] = ()) -> None:
        self.ids = list(ids)

    @property
    def length(self) -> int:
        return len(self.ids)

    def crop(self, length: int) -> None:
        assert 0 <= length <= len(self.ids), "crop may only shorten"
        del self.ids[length:]


class ScriptedTrunk:
    """A trunk whose law after a sequence is `law(sequence)`, which may be wider than its tokenizer.

    Its hidden state names the sequence that it stands for (`state`), so that a test can tell true states from stale ones.
    """

    name, dtype, device, fingerprint, directory = "scripted", "float32", "cpu", "scripted", None

    def __init__(self, law: Law, vocab_size: int, *, end_ids: Sequence[int] = (), context: int = 10_000):
        self.law, self.vocab_size, self.context = law, vocab_size, context
        self.end_ids = frozenset(end_ids)
        self.passes: list[list[int]] = []  # the ids of every forward pass
        self.caches: list[ScriptedCache] = []

    def encode(self, text: str, raw: bool = False) -> list[int]:
        return [byte % self.vocab_size for byte in text.encode()]

    def token_bytes(self, id_: int) -> bytes:
        return b"<%d>" % id_

    def new_cache(self) -> ScriptedCache:
        self.caches.append(ScriptedCache())
        return self.caches[-1]

    def forward(self, ids: Sequence[int], cache: ScriptedCache, *, last_only: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        self.passes.append(list(ids))
        laws, states = [], []
        for id_ in ids:
            cache.ids.append(id_)
            laws.append(self.law(tuple(cache.ids)))
            states.append(state(cache.ids))
        assert len(cache.ids) <= self.context, "a pass beyond the context"
        logits = log(torch.tensor(laws, dtype=torch.float64))
        return (logits[-1:] if last_only else logits), torch.tensor(states, dtype=torch.float64)

    def probs(self, sequence: Sequence[int]) -> list[float]:
        """The law after `sequence`, computed with no cache, over the tokenizer's ids."""
        law = list(self.law(tuple(sequence)))[: self.vocab_size]
        return [prob / sum(law) for prob in law]

    def greedy(self, prompt: Sequence[int], n: int) -> list[int]:
        """The `n` tokens after `prompt` with no engine: one argmax at a time."""
        sequence = list(prompt)
        for _ in range(n):
            probs = self.probs(sequence)
            sequence.append(probs.index(max(probs)))
        return sequence[len(prompt) :]


def state(prefix: Sequence[int]) -> list[float]:
    """The scripted hidden state after `prefix`: its length, and a number that tells its tokens."""
    return [len(prefix), hash(tuple(prefix)) % 2**40]


class ScriptedDrafter:
    """Drafts from `law(sequence)`, or exactly the tokens that `script(sequence, k)` names (then its law is one-hot)."""

    name = "scripted"

    def __init__(self, vocab_size: int, *, law: Law | None = None, script: Callable[[Sequence[int], int], list[int]] | None = None, max_draft_tokens: int = 8):
        self.vocab_size, self.law, self.script, self.max_draft_tokens = vocab_size, law, script, max_draft_tokens
        self.start()

    def start(self) -> None:
        self.observed: list[tuple[list[float], int]] = []  # (state, token that followed)
        self.asked: list[int] = []

    def observe(self, hidden: torch.Tensor, next_ids: Sequence[int]) -> None:
        assert len(hidden) == len(next_ids)
        self.observed += zip(hidden.tolist(), next_ids)

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, sample: Sample) -> Proposal:
        self.asked.append(num_draft_tokens)
        if self.script is not None:
            tokens = self.script(sequence, num_draft_tokens)
            probs = torch.zeros(len(tokens), self.vocab_size, dtype=torch.float64)
            for row, token in enumerate(tokens):
                probs[row, min(token, self.vocab_size - 1)] = 1.0
            return Proposal(tokens, probs, probs)
        tokens, laws, raws = [], [], []
        for _ in range(num_draft_tokens):
            choice = sample(log(torch.tensor(self.law((*sequence, *tokens)), dtype=torch.float64)))
            tokens.append(choice.index)
            laws.append(choice.probs)
            raws.append(choice.raw_probs)
        return Proposal(tokens, torch.stack(laws), torch.stack(raws))


class MarkovTrunk(ScriptedTrunk):
    """A trunk whose law depends on the last token alone: row i of `table` (vocabulary, vocabulary) follows token i.

    Made for tens of thousands of runs: the tensors of a pass are built once for each run of ids.
    """

    def __init__(self, table: torch.Tensor):
        super().__init__(lambda prefix: table[prefix[-1]].tolist(), len(table))
        self._logits = cache(lambda ids: log(table)[list(ids)])

    def forward(self, ids: Sequence[int], cache: ScriptedCache, *, last_only: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        cache.ids += ids
        logits = self._logits(tuple(ids))
        return logits, logits


class MarkovDrafter:
    """Draws each draft from the row of `table` that its predecessor names. For temperature 1 without top-k or top-p.

    It has dice of its own, since building a law for every draft would take most of the time of a run.
    """

    name, max_draft_tokens = "markov", 8

    def __init__(self, table: torch.Tensor):
        self._uniform = random.Random(0).random
        self._cumulative = [list(accumulate(row)) for row in table.tolist()]
        self._laws = cache(lambda ids: table[list(ids)])

    def start(self) -> None:
        pass

    def observe(self, hidden: torch.Tensor, next_ids: Sequence[int]) -> None:
        pass

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, sample: Sample) -> Proposal:
        chain = [sequence[-1]]
        for _ in range(num_draft_tokens):
            row = self._cumulative[chain[-1]]
            chain.append(min(bisect_right(row, self._uniform()), len(row) - 1))
        laws = self._laws(tuple(chain[:-1]))
        return Proposal(chain[1:], laws, laws)
