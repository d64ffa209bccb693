"""`python -m mtviz lab footprint`: the memory of the trunk alone and with each family of heads.

Each is measured in a process of its own, so that none finds what another left behind.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Sequence

from mtviz.decoding.loop import decode
from mtviz.drafting.files import load_drafters
from mtviz.evaluation.machine import PeakMemory, provenance
from mtviz.settings import DTYPES, Settings
from mtviz.trunk import Trunk, TrunkNotFound, load_trunk

HEADS = Path(__file__).resolve().parents[2] / "assets" / "heads"
PROMPT = "Explain to a child how rain forms."
TOKENS = 64


def measure(trunk: Trunk, family: str | None, heads: Path = HEADS) -> dict[str, Any]:
    """Decode `TOKENS` tokens with `family` (None: no drafter).

    Returns parameters and file_bytes (what the family adds as it is shipped; for None the trunk's own, in its dtype),
    cache_bytes_per_token (keys and values of the trunk), and peak_bytes, the most memory that the whole process held
    meanwhile, Python and its packages included (the device's alone on CUDA; null where it is not known).
    """
    drafter = None
    if family is not None:
        drafters, _ = load_drafters(heads, trunk)
        drafter = drafters[family]()
        parameters, file_bytes = sum(weight.numel() for weight in drafter.heads.parameters()), (heads / f"{family}.safetensors").stat().st_size
    else:
        weights = list(trunk.model.parameters())
        parameters, file_bytes = sum(weight.numel() for weight in weights), sum(weight.numel() * weight.element_size() for weight in weights)
    peak = PeakMemory(trunk.device)
    peak.restart()
    length = 4 if drafter else 0
    for _ in decode(trunk, drafter, trunk.encode(PROMPT), Settings(rule="match", num_draft_tokens=length, max_new_tokens=TOKENS)):
        pass
    return {
        "family": family or "none", "parameters": parameters, "file_bytes": file_bytes,
        "cache_bytes_per_token": _cache_bytes_per_token(trunk), "peak_bytes": peak.read(),
    }


def _cache_bytes_per_token(trunk: Trunk) -> float:
    cache = trunk.new_cache()
    trunk.forward([0, 0], cache)
    if trunk.lean is not None:
        return cache.states.nbytes / cache.states.shape[2]
    return sum(tensor.nbytes for layer in cache.states.layers for tensor in (layer.keys, layer.values)) / cache.length


def _in_a_fresh_process(dtype: str, family: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    trunk = load_trunk(dtype=dtype)
    return measure(trunk, family), provenance(trunk, f"python -m mtviz lab footprint --dtype {dtype} --json footprint.json")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mtviz lab footprint", description="memory of the trunk alone and with each family of heads")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result")
    arguments = parser.parse_args(argv)
    families = [None, *sorted(path.stem for path in HEADS.glob("*.safetensors"))]
    measured = []
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        try:
            for at, family in enumerate(families):
                print(f"{at + 1} of {len(families)}: measuring {family or 'the trunk alone'}", file=sys.stderr, flush=True)
                measured.append(processes.submit(_in_a_fresh_process, arguments.dtype, family).result())
        except TrunkNotFound as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    rows = [row for row, _ in measured]
    for row in rows:
        peak = "?" if row["peak_bytes"] is None else f"{row['peak_bytes'] / 1e6:.0f}"
        print(f"{row['family']:<13} {row['parameters'] / 1e6:.2f} M parameters  {row['file_bytes'] / 1e6:.1f} MB  peak {peak} MB")
    if arguments.json:
        document = {"kind": "footprint", "provenance": measured[0][1], "tokens": TOKENS, "rows": rows}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0
