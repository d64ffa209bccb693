"""The tutorial's `generate_multi_token` on a jointly trained model, unverified as there and verified, through the decode loop.

Unverified, every head's token is taken as it comes: n tokens a pass. That is the same loop with a threshold that any
probability above zero meets, so that the same Trace shows how the text falls apart. Verified, the trunk's own text comes out.
"""

from __future__ import annotations

import sys
from typing import Callable

from mtviz.decoding.record import decode_trace
from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.joint import joint_drafters
from mtviz.heads.joint import MultiTokenPrediction
from mtviz.heads.joint_store import decodable
from mtviz.settings import Settings, check_prompt
from mtviz.trace import Trace
from mtviz.trunk import Trunk

TAKE_ALL = sys.float_info.min  # the ratio rule's threshold that accepts every draft


def generate_multi_token(
    model: MultiTokenPrediction, prompt: str, max_new_tokens: int = 128, *, verified: bool = True, temperature: float = 0.0, seed: int = 0
) -> Trace:
    """Continue `prompt` by at most `max_new_tokens` new bytes and return the Trace; the text is in its `output`.

    Verified, drafts stay where they are what the trunk would have written (`match` at temperature 0, `speculative` above);
    unverified, all of them stay. The budget does not count the prompt. Raises SettingsError for a blank or too long prompt
    and for settings out of bounds.
    """
    trunk, drafter = trunk_and_drafter(model)
    settings = settings_of(drafter, verified, max_new_tokens=max_new_tokens, temperature=temperature, seed=seed)
    *_, trace = decode_trace(trunk, drafter() if drafter else None, check_prompt(prompt), settings)
    return trace


def settings_of(drafter: Callable[[], HeadsDrafter] | None, verified: bool, *, temperature: float = 0.0, **others) -> Settings:
    """Raw text continued with as many drafts as there are heads for them."""
    made = drafter() if drafter else None
    length, name = (made.max_draft_tokens, made.name) if made else (0, "none")
    rule = "ratio" if not verified else "match" if temperature == 0 else "speculative"
    threshold = 0.5 if verified else TAKE_ALL
    return Settings(num_draft_tokens=length, drafter=name, rule=rule, threshold=threshold, temperature=temperature, raw=True, **others)


def trunk_and_drafter(model: MultiTokenPrediction) -> tuple[Trunk, Callable[[], HeadsDrafter] | None]:
    """A frozen copy of the model's trunk, and what makes a fresh drafter of its heads; None where it has but one."""
    trunk, own = decodable(model, "bytes")
    return trunk, next(iter(joint_drafters(own, trunk).values()), None)
