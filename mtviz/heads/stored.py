"""What heads files hold, told from the files alone: no trunk is needed."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import NotRequired, TypedDict

from safetensors import SafetensorError, safe_open

from .store import FAMILIES, FORMAT


class Stored(TypedDict):
    """One family's file. `shapes` are the tensors' by name, `draft_ids` apart; `bytes` is the file's size."""

    trunk: str
    fingerprint: str
    bytes: int
    parameters: int
    draft_ids: int
    max_draft_tokens: int
    shapes: dict[str, list[int]]
    schedule: NotRequired[dict]  # of the training run, from the provenance beside the file
    length: NotRequired[dict]  # the length predictor beside the file: cost, fitted


def stored_heads(directory: Path) -> dict[str, Stored]:
    """By family, every readable heads file in `directory`. A file that is none is left out; loading says why."""
    found: dict[str, Stored] = {}
    for path in sorted(directory.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                described = file.metadata() or {}
                shapes = {name: list(file.get_slice(name).get_shape()) for name in file.keys()}
        except (SafetensorError, OSError):
            continue
        family = described.get("family")
        if described.get("format") != FORMAT or family not in FAMILIES or "draft_ids" not in shapes:
            continue
        (draft_ids,) = shapes.pop("draft_ids")
        found[family] = {
            "trunk": described.get("trunk", ""),
            "fingerprint": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
            "parameters": sum(math.prod(shape) for shape in shapes.values()),
            "draft_ids": draft_ids,
            "max_draft_tokens": FAMILIES[family].max_draft_tokens,
            "shapes": shapes,
        }
        if schedule := _read(path.with_name(f"{path.stem}.provenance.json")).get("schedule"):
            found[family]["schedule"] = schedule
        if length := _read(path.with_name(f"{family}.length.json")):
            found[family]["length"] = {name: length.get(name) for name in ("cost", "fitted")}
    return found


def _read(path: Path) -> dict:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
