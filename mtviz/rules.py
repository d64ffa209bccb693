"""The four acceptance rules, on the scalars of one drafted position. Standard library only.

Glossary (the same words in code, page and docs):
  target_prob   probability of the drafted token under the trunk, after temperature and top-k/top-p
  draft_prob    probability of the drafted token under the law that it was drawn from
  ratio         target_prob / draft_prob; null where draft_prob is 0
  u             the position's uniform draw in [0, 1), which `speculative` compares the ratio with
  gate          the height that target_prob must reach to be accepted, where the rule has one
  entropy       of the target distribution, in nats
  trunk_token   one token drawn from the target distribution (its argmax at temperature 0)

Sources: `speculative` is Leviathan et al. 2023 (arXiv:2211.17192) and Chen et al. 2023 (arXiv:2302.01318);
`typical` is Medusa's typical acceptance, Cai et al. 2024 (arXiv:2401.10774); `ratio` is the rule of the
multi-token decoding tutorial (`MultiTokenDecoderSim`); `match` accepts what sampling the trunk would have given.
"""

from __future__ import annotations

import math

LOSSLESS = frozenset({"speculative", "match"})


def accept_ratio(draft_prob: float, target_prob: float, threshold: float) -> bool:
    """Accept when target_prob >= threshold * draft_prob; where draft_prob <= 0, when target_prob > 0."""
    if draft_prob <= 0:
        return target_prob > 0
    return target_prob >= draft_prob * threshold


def accept_speculative(draft_prob: float, target_prob: float, u: float) -> bool:
    """Accept when u < min(1, target_prob / draft_prob); where draft_prob <= 0, when target_prob > 0."""
    if draft_prob <= 0:
        return target_prob > 0
    return u < min(1.0, target_prob / draft_prob)


def accept_typical(target_prob: float, entropy: float, epsilon: float, delta: float) -> bool:
    """Accept when target_prob >= min(epsilon, delta * exp(-entropy))."""
    return target_prob >= min(epsilon, delta * math.exp(-entropy))


def accept_match(token: int, trunk_token: int) -> bool:
    """Accept when the drafted token is the token drawn from the trunk."""
    return token == trunk_token


def judges_by_match(rule: str, temperature: float) -> bool:
    """At temperature 0 `speculative` has one-hot laws and so is the same rule as `match`."""
    return rule == "match" or (rule == "speculative" and temperature == 0)


def accepts(
    rule: str,
    *,
    token: int,
    trunk_token: int,
    draft_prob: float,
    target_prob: float,
    u: float,
    entropy: float,
    threshold: float,
    epsilon: float,
    delta: float,
    temperature: float,
) -> bool:
    """Judge one drafted token. All numbers are float64; raises ValueError for an unknown rule."""
    if judges_by_match(rule, temperature):
        return accept_match(token, trunk_token)
    if rule == "ratio":
        return accept_ratio(draft_prob, target_prob, threshold)
    if rule == "speculative":
        return accept_speculative(draft_prob, target_prob, u)
    if rule == "typical":
        return accept_typical(target_prob, entropy, epsilon, delta)
    raise ValueError(f"unknown rule {rule!r}")


def gate(
    rule: str,
    *,
    draft_prob: float,
    u: float,
    entropy: float,
    threshold: float,
    epsilon: float,
    delta: float,
    temperature: float,
) -> float | None:
    """Where the notch stands: the target probability that this rule asks for, or None for `match`."""
    if judges_by_match(rule, temperature):
        return None
    if rule == "ratio":
        return draft_prob * threshold
    if rule == "speculative":
        return draft_prob * u
    if rule == "typical":
        return min(epsilon, delta * math.exp(-entropy))
    raise ValueError(f"unknown rule {rule!r}")
