"""What heads files hold, told from the files alone: neither torch nor a trunk is needed, so that a page can say it at once."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from pathlib import Path
from typing import Any, NotRequired, TypedDict

_LONGEST_HEADER = 1_000_000  # bytes; ours have a few thousand


class Stored(TypedDict):
    """One family's file. `shapes` are the tensors' by name, `draft_ids` apart; `bytes` is the file's size."""

    trunk: str
    fingerprint: str  # SHA-256 of the file
    bytes: int
    parameters: int
    draft_ids: int
    shapes: dict[str, list[int]]
    schedule: NotRequired[dict[str, Any]]  # of the training run, from the provenance beside the file
    length: NotRequired[dict[str, Any]]  # the length predictor beside the file: cost, fitted


def stored_heads(directory: Path) -> dict[str, Stored]:
    """By family, every readable heads file in `directory`. A file that is none is left out; loading says why."""
    found: dict[str, Stored] = {}
    for path in sorted(directory.glob("*.safetensors")):
        content = path.read_bytes()
        header = _header(content)
        described = header.pop("__metadata__", {})
        if not described.get("format", "").startswith("mtviz-heads-") or "draft_ids" not in header:
            continue
        shapes = {name: tensor["shape"] for name, tensor in header.items()}
        (draft_ids,) = shapes.pop("draft_ids")
        stored: Stored = {
            "trunk": described["trunk"],
            "fingerprint": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
            "parameters": sum(map(math.prod, shapes.values())),
            "draft_ids": draft_ids,
            "shapes": shapes,
        }
        if schedule := _read(path.with_name(f"{path.stem}.provenance.json")).get("schedule"):
            stored["schedule"] = schedule
        if length := _read(path.with_name(f"{described['family']}.length.json")):
            stored["length"] = {name: length.get(name) for name in ("cost", "fitted")}
        found[described["family"]] = stored
    return found


def _header(content: bytes) -> dict[str, Any]:
    """A safetensors file begins with the length of its JSON header in 8 bytes, then that. Empty where it does not."""
    try:
        (length,) = struct.unpack_from("<Q", content)
        return json.loads(content[8 : 8 + length]) if length <= _LONGEST_HEADER else {}
    except (struct.error, ValueError):
        return {}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
