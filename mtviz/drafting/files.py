"""The drafters that a trunk's own checkpoint and a directory of trained files give."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Callable, Iterator

from mtviz.drafting.adaptive import AdaptiveDrafter
from mtviz.drafting.heads import HeadsDrafter
from mtviz.drafting.hybrid import HybridDrafter
from mtviz.heads import Heads, HeadsError, MtpHeads, load_eagle, load_heads, load_medusa, native_heads
from mtviz.heads.eagle import is_eagle
from mtviz.heads.length import load_length
from mtviz.heads.medusa import FILES as MEDUSA_FILES
from mtviz.trunk import Trunk

ADAPTIVE_FAMILY = MtpHeads.family  # whose length the adaptive drafter chooses


def load_drafters(directory: Path, trunk: Trunk) -> tuple[dict[str, Callable[[], HeadsDrafter]], list[HeadsError]]:
    """By name, what makes a fresh drafter of the trunk's own MTP layers and of each file in `directory`; and why those that
    are missing here were refused.

    `*.safetensors` are heads, named by their family, Medusa's or EAGLE's; a file goes before the trunk's own layers.
    `mtp.length.json` beside `mtp` heads makes "adaptive", and "hybrid" of it and lookup.
    """
    loaded: dict[str, Heads] = {}
    drafters: dict[str, Callable[[], HeadsDrafter]] = {}
    refused: list[HeadsError] = []
    for load in _loaders(directory, trunk):
        try:
            heads = load()
        except HeadsError as error:
            refused.append(error)
            continue
        if heads is None:
            continue
        loaded[heads.family] = heads
        drafters[heads.family] = partial(HeadsDrafter, heads)
    path = directory / f"{ADAPTIVE_FAMILY}.length.json"
    if path.exists() and (heads := loaded.get(ADAPTIVE_FAMILY)) is not None:
        try:
            predictor = load_length(path, heads)
            drafters |= {"adaptive": partial(AdaptiveDrafter, heads, predictor), "hybrid": partial(HybridDrafter, heads, predictor)}
        except HeadsError as error:
            refused.append(error)
    return drafters, refused


def _loaders(directory: Path, trunk: Trunk) -> Iterator[Callable[[], Heads | None]]:
    yield partial(native_heads, trunk)
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.name in MEDUSA_FILES:
            yield partial(load_medusa, path, trunk)
        elif is_eagle(path):
            yield partial(load_eagle, path, trunk)
        elif path.suffix == ".safetensors":
            yield partial(load_heads, path, trunk)
