"""The exact bias of one judged position: how far the law of the token emitted there is from the trunk's.

A draft is drawn from q and accepted with probability A; otherwise a token is drawn from the rule's recovery law r.
So the token emitted there has the law e = q*A + (1 - sum(q*A)) * r, and the bias is TV(e, p) = half the L1 distance.
For `speculative` and `match` e = p, whatever q is; for the other two it depends on how far q and p are apart.
"""

from __future__ import annotations

import torch

from mtviz import rules
from mtviz.decoding.verification import recovery_law
from mtviz.settings import Settings


def bias_tv(draft_probs: torch.Tensor, target_probs: torch.Tensor, entropy: float, settings: Settings) -> float:
    """TV distance in [0, 1] at temperature > 0. The laws are float64 of shape (vocabulary,); entropy in nats.

    At temperature 0 there are no laws to compare: the bias is then 1 where an accepted token is not the trunk's
    argmax, which the caller knows.
    """
    emitted = draft_probs * acceptance(draft_probs, target_probs, entropy, settings)
    rejected = max(0.0, 1.0 - float(emitted.sum()))
    emitted = emitted + rejected * recovery_law(draft_probs, target_probs, -1, settings)
    return min(1.0, 0.5 * float((emitted - target_probs).abs().sum()))


def acceptance(draft_probs: torch.Tensor, target_probs: torch.Tensor, entropy: float, settings: Settings) -> torch.Tensor:
    """Probability (vocabulary,) that each token would be accepted, had it been drafted: `mtviz.rules` over a whole law."""
    if settings.rule == "match":
        return target_probs
    if settings.rule == "speculative":
        return torch.where(draft_probs > 0, (target_probs / draft_probs).clamp_max(1.0), (target_probs > 0).double())
    if settings.rule == "ratio":
        asked = torch.where(draft_probs > 0, target_probs >= draft_probs * settings.threshold, target_probs > 0)
        return asked.double()
    bar = rules.gate(
        "typical", draft_prob=0.0, u=0.0, entropy=entropy, threshold=1.0,
        epsilon=settings.epsilon, delta=settings.delta, temperature=settings.temperature,
    )
    return (target_probs >= bar).double()
