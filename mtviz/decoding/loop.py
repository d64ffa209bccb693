"""The decode loop: a generator of rounds. Page, command line and benchmark only consume it.

One round:
  1. the drafter proposes up to k tokens
  2. one trunk pass over [last token, drafts] gives the target law at every drafted position and after the last
  3. the rule judges left to right; the first rejection ends it
  4. the accepted prefix is emitted, then one recovered (rejection) or bonus (all accepted) token
  5. the cache is cropped to len(sequence) - 1, and the drafter hears the true states of what was kept
Plain autoregressive decoding is the same loop with no drafter.

Source: Leviathan et al. 2023 (arXiv:2211.17192); self-drafting with heads: Stern et al. 2018 (arXiv:1811.03115),
Gloeckle et al. 2024 (arXiv:2404.19737).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Iterator, Sequence

import torch

from mtviz.decoding import sampling
from mtviz.decoding.verification import Verification, verify
from mtviz.drafting.protocol import Drafter, Proposal
from mtviz.settings import Settings, SettingsError

if TYPE_CHECKING:
    from mtviz.trunk import Trunk


@dataclass
class PrefillStep:
    """The pass over the prompt: `probs` and `raw_probs` (1, vocabulary) float64, the first token, and the end if it came."""

    token: int
    probs: torch.Tensor
    raw_probs: torch.Tensor
    seconds: float
    finish_reason: str | None


@dataclass
class RoundStep:
    """One round with everything it was decided by: k drafts, laws (k + 1, vocabulary) float64, draws, times in seconds."""

    start: int
    proposal: Proposal
    probs: torch.Tensor
    raw_probs: torch.Tensor
    entropies: list[float]
    trunk_tokens: list[int]
    uniforms: list[float]
    verification: Verification
    new_tokens: list[int]
    cache_lengths: tuple[int, int, int]  # before, peak, after
    draft_seconds: float
    verify_seconds: float
    finish_reason: str | None


@torch.inference_mode()
def decode(trunk: Trunk, drafter: Drafter | None, prompt: Sequence[int], settings: Settings) -> Iterator[PrefillStep | RoundStep]:
    """Yield the prefill, then rounds, until an end token ("stop"), the budget ("length") or the context limit ("context").

    The last step carries the `finish_reason`. Equal arguments give equal steps but for the seconds.

    Raises:
        SettingsError: the prompt is empty or does not fit the trunk's context; before any model work.
        ValueError: a drafter proposed more than it was asked for, or an id that the tokenizer lacks.
    """
    if not prompt:
        raise SettingsError("prompt", "has no tokens")
    if len(prompt) > trunk.context:
        raise SettingsError("prompt", f"has {len(prompt)} tokens; this model's context holds {trunk.context}")
    uniform = random.Random(settings.seed).random
    sample = sampling.sampler(settings, uniform)
    sequence = list(prompt)
    budget = len(prompt) + settings.max_new_tokens
    cache = trunk.new_cache()

    def finish_reason() -> str | None:
        if sequence[-1] in trunk.end_ids:
            return "stop"
        if len(sequence) >= budget:
            return "length"
        return "context" if len(sequence) > trunk.context else None

    began = time.perf_counter()
    logits, hidden = trunk.forward(sequence, cache, last_only=True)
    raw_probs, probs = sampling.process(logits[-1:, : trunk.vocab_size], settings)
    sequence += sampling.choose(probs, settings, [uniform()])
    if drafter is not None:
        drafter.start()
        drafter.observe(hidden, sequence[1:])
    yield PrefillStep(sequence[-1], probs, raw_probs, time.perf_counter() - began, finish_reason())

    while finish_reason() is None:
        start = len(sequence)
        began = time.perf_counter()
        # The budget never cuts a round: one place is kept for the recovered or bonus token.
        k = min(settings.num_draft_tokens, budget - start - 1, trunk.context - start)
        if drafter is None or k <= 0:
            proposal = Proposal([], probs[:0], probs[:0])
        else:
            proposal = _checked(drafter.propose(sequence, min(k, drafter.max_draft_tokens), sample), k, probs)
        k = len(proposal.tokens)
        drafted = time.perf_counter()

        logits, hidden = trunk.forward([sequence[-1], *proposal.tokens], cache)
        raw_probs, probs = sampling.process(logits[:, : trunk.vocab_size], settings)
        entropies = sampling.entropy(probs).tolist()
        uniforms = [uniform() for _ in range(k)]
        trunk_tokens = sampling.choose(probs, settings, [uniform() for _ in range(k + 1)])
        verification = verify(
            proposal.tokens, proposal.draft_probs, probs, trunk_tokens, uniforms, uniform(), entropies, settings, trunk.end_ids
        )
        new_tokens = proposal.tokens[: verification.accepted]
        if verification.token is not None:
            new_tokens = [*new_tokens, verification.token]
        sequence += new_tokens
        peak = cache.length
        cache.crop(len(sequence) - 1)
        if drafter is not None:
            drafter.observe(hidden[: len(new_tokens)], new_tokens)
        verified = time.perf_counter()

        yield RoundStep(
            start, proposal, probs, raw_probs, entropies, trunk_tokens, uniforms, verification, new_tokens,
            (start - 1, peak, cache.length), drafted - began, verified - drafted, finish_reason(),
        )


def _checked(proposal: Proposal, asked: int, like: torch.Tensor) -> Proposal:
    """The proposal with its laws in the dtype and on the device of the trunk's laws `like` (n, vocabulary)."""
    vocab_size = like.shape[-1]
    if len(proposal.tokens) > asked:
        raise ValueError(f"the drafter proposed {len(proposal.tokens)} tokens where {asked} were asked for")
    for token in proposal.tokens:
        if not 0 <= token < vocab_size:
            raise ValueError(f"the drafter proposed id {token}, which the tokenizer (0 to {vocab_size - 1}) lacks")
    return replace(proposal, draft_probs=proposal.draft_probs.to(like), raw_draft_probs=proposal.raw_draft_probs.to(like))
