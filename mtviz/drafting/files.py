"""The drafters that a directory of trained files gives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Callable

from mtviz.drafting.adaptive import AdaptiveDrafter
from mtviz.drafting.heads import HeadsDrafter
from mtviz.heads import Heads, HeadsError, MtpHeads, load_heads
from mtviz.heads.length import load_length
from mtviz.trunk import Trunk

ADAPTIVE_FAMILY = MtpHeads.family  # whose length the adaptive drafter chooses


def load_drafters(directory: Path, trunk: Trunk) -> tuple[dict[str, Callable[[], HeadsDrafter]], list[HeadsError]]:
    """By name, what makes a fresh drafter from each file in `directory`; and why those that are missing here were refused.

    `*.safetensors` are heads, named by their family; `mtp.length.json` beside `mtp` heads makes the one named "adaptive".
    """
    loaded: dict[str, Heads] = {}
    drafters: dict[str, Callable[[], HeadsDrafter]] = {}
    refused: list[HeadsError] = []
    for path in sorted(directory.glob("*.safetensors")):
        try:
            heads = load_heads(path, trunk)
        except HeadsError as error:
            refused.append(error)
            continue
        loaded[heads.family] = heads
        drafters[heads.family] = partial(HeadsDrafter, heads)
    path = directory / f"{ADAPTIVE_FAMILY}.length.json"
    if path.exists() and (heads := loaded.get(ADAPTIVE_FAMILY)) is not None:
        try:
            drafters["adaptive"] = partial(AdaptiveDrafter, heads, load_length(path, heads))
        except HeadsError as error:
            refused.append(error)
    return drafters, refused
