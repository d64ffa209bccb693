"""Verification: which drafted tokens stay, and what is emitted after them. A pure function of given laws and draws.

Left to right, the first rejection ends it; after it one token is *recovered* from the law that the rule prescribes,
and where all drafts are accepted one *bonus* token comes from the position after them. The rules and their sources
are in `mtviz.rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Collection, Sequence

import torch

from mtviz import rules
from mtviz.decoding import sampling
from mtviz.settings import Settings
from mtviz.trace import Verdict


@dataclass
class Verification:
    """`token` is None only where an accepted draft was an end token. `recovery` is the law (vocabulary,) of the
    recovered token, None without a rejection."""

    verdicts: list[Verdict]
    accepted: int
    kind: str | None
    token: int | None
    recovery: torch.Tensor | None


def verify(
    tokens: Sequence[int],
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    trunk_tokens: Sequence[int],
    uniforms: Sequence[float],
    recovery_uniform: float,
    entropies: Sequence[float],
    settings: Settings,
    end_ids: Collection[int] = (),
) -> Verification:
    """Judge a round.

    Args:
        tokens: the k drafted ids.
        draft_probs: (k, vocabulary) float64, the laws that they were drawn from.
        target_probs: (k + 1, vocabulary) float64, the trunk's laws at their positions and after the last.
        trunk_tokens: k + 1 ids, one drawn from each row of target_probs.
        uniforms: k draws in [0, 1), for `speculative`.
        recovery_uniform: the draw in [0, 1) for a recovered token.
        entropies: of the target laws, nats, at least k.
        end_ids: an accepted one ends the round; later drafts are discarded and nothing more is emitted.
    """
    drafted = torch.tensor(tokens, dtype=torch.long, device=target_probs.device)[:, None]
    draft_scores = draft_probs.gather(-1, drafted)[:, 0].tolist()
    target_scores = target_probs.gather(-1, drafted)[:, 0].tolist()
    for i, token in enumerate(tokens):
        accepted = rules.accepts(
            settings.rule,
            token=token,
            trunk_token=trunk_tokens[i],
            draft_prob=draft_scores[i],
            target_prob=target_scores[i],
            u=uniforms[i],
            entropy=entropies[i],
            threshold=settings.threshold,
            epsilon=settings.epsilon,
            delta=settings.delta,
            temperature=settings.temperature,
        )
        rest = len(tokens) - i - 1
        if accepted and token in end_ids:
            return Verification(["accepted"] * (i + 1) + ["discarded"] * rest, i + 1, None, None, None)
        if not accepted:
            law = recovery_law(draft_probs[i], target_probs[i], trunk_tokens[i], settings)
            if settings.temperature == 0 or settings.rule == "match":
                recovered = trunk_tokens[i]
            else:
                recovered = sampling.draw(law[None], [recovery_uniform])[0]
            verdicts: list[Verdict] = ["accepted"] * i + ["rejected"] + ["unjudged"] * rest
            return Verification(verdicts, i, "recovered", recovered, law)
    return Verification(["accepted"] * len(tokens), len(tokens), "bonus", trunk_tokens[len(tokens)], None)


def recovery_law(draft_probs: torch.Tensor, target_probs: torch.Tensor, trunk_token: int, settings: Settings) -> torch.Tensor:
    """The law (vocabulary,) of the token emitted after a rejection, given the laws (vocabulary,) at its position."""
    if settings.temperature == 0:
        return torch.nn.functional.one_hot(torch.tensor(trunk_token), len(target_probs)).to(target_probs)
    if settings.rule == "speculative":
        return sampling.residual(target_probs, draft_probs)
    if settings.rule == "match":
        missed = target_probs * (1 - draft_probs)
        mass = missed.sum()
        return missed / mass if mass > 0 else torch.zeros_like(missed)
    return target_probs
