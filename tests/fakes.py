"""A scripted trunk and drafter: real interfaces, tiny laws, no weights. The engine under test is the real one."""

from __future__ import annotations

from typing import Callable, Sequence

import torch

from mtviz.drafting.protocol import Proposal
from mtviz.decoding import sampling
from mtviz.settings import Settings

Law = Callable[[Sequence[int]], Sequence[float]]


class ScriptedCache:
    """Remembers the ids it was fed, so that a test can see exactly what is cached."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    @property
    def length(self) -> int:
        return len(self.ids)

    def crop(self, length: int) -> None:
        assert 0 <= length <= len(self.ids), "crop may only shorten"
        del self.ids[length:]


class ScriptedTrunk:
    """A trunk whose law after a sequence is `law(sequence)`. Its hidden state is that law itself, so drafts can be checked."""

    name, dtype, device, fingerprint = "scripted", "float32", "cpu", "scripted"

    def __init__(self, law: Law, vocab_size: int, *, end_ids: Sequence[int] = (), context: int = 10_000, head_width: int | None = None):
        self.law, self.vocab_size, self.context = law, vocab_size, context
        self.head_width = head_width or vocab_size
        self.end_ids = frozenset(end_ids)
        self.passes: list[list[int]] = []

    def encode(self, text: str, raw: bool = False) -> list[int]:
        return [byte % self.vocab_size for byte in text.encode()]

    def token_bytes(self, id_: int) -> bytes:
        return b"<%d>" % id_

    def new_cache(self) -> ScriptedCache:
        return ScriptedCache()

    def forward(self, ids: Sequence[int], cache: ScriptedCache, *, last_only: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        self.passes.append(list(ids))
        rows = []
        for id_ in ids:
            cache.ids.append(id_)
            rows.append(torch.tensor(self.law(tuple(cache.ids)), dtype=torch.float64))
        hidden = torch.stack(rows)
        logits = hidden.clamp_min(1e-300).log()
        return (logits[-1:] if last_only else logits), hidden


class ScriptedDrafter:
    """Drafts from `law(sequence)`, or exactly the tokens that `script(sequence, k)` names (then its law is one-hot)."""

    name = "scripted"

    def __init__(self, vocab_size: int, *, law: Law | None = None, script: Callable[[Sequence[int], int], list[int]] | None = None, max_draft_tokens: int = 8):
        self.vocab_size, self.law, self.script, self.max_draft_tokens = vocab_size, law, script, max_draft_tokens
        self.observed: list[int] = []

    def start(self) -> None:
        self.observed = []

    def observe(self, hidden: torch.Tensor, next_ids: Sequence[int]) -> None:
        assert len(hidden) == len(next_ids)
        self.observed += next_ids

    def propose(self, sequence: Sequence[int], num_draft_tokens: int, settings: Settings, uniform: Callable[[], float]) -> Proposal:
        if self.script is not None:
            tokens = self.script(sequence, num_draft_tokens)
            probs = torch.zeros(len(tokens), self.vocab_size, dtype=torch.float64)
            probs[torch.arange(len(tokens)), tokens] = 1.0
            return Proposal(tokens, probs, probs)
        tokens, laws, raws = [], [], []
        for _ in range(num_draft_tokens):
            logits = torch.tensor(self.law((*sequence, *tokens)), dtype=torch.float64).clamp_min(1e-300).log()
            raw, probs = sampling.process(logits[None], settings)
            tokens += [int(probs.argmax())] if settings.temperature == 0 else sampling.draw(probs, [uniform()])
            laws.append(probs[0])
            raws.append(raw[0])
        return Proposal(tokens, torch.stack(laws), torch.stack(raws))
