"""The drafters of a jointly trained model."""

from __future__ import annotations

from functools import partial
from typing import Callable

from mtviz.drafting.adaptive import AdaptiveDrafter
from mtviz.drafting.heads import HeadsDrafter
from mtviz.heads.joint import AdaptiveMultiTokenPrediction, JointHeads, MultiTokenPrediction
from mtviz.trunk import Trunk


def joint_drafters(model: MultiTokenPrediction, trunk: Trunk) -> dict[str, Callable[[], HeadsDrafter]]:
    """What makes a fresh drafter, by the name of the family; nothing for a model with one head. `trunk` holds the model's own."""
    if model.heads < 2:
        return {}
    heads = JointHeads(model, trunk)
    if isinstance(model, AdaptiveMultiTokenPrediction):
        return {heads.family: partial(AdaptiveDrafter, heads, model.predictor(heads.fingerprint))}
    return {heads.family: partial(HeadsDrafter, heads)}
