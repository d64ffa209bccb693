"""Recording an atlas: every cell decoded for real, through the same loop as on the page. Can be stopped and gone on with."""

from __future__ import annotations

import datetime
import json
import platform
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from mtviz.atlas import THRESHOLDS, Cell, cell_settings, cells, pack, stripped, why_none
from mtviz.rules import accept_ratio
from mtviz.settings import Settings
from mtviz.trace import Trace

Decode = Callable[[str, Settings], Iterator[Trace]]


def record(
    preset: Mapping[str, Any], decode: Decode, out: Path, command: str, report: Callable[[str], None] = partial(print, flush=True)
) -> Path:
    """Decode every cell of a preset's atlas and write `out`/NAME.json, which is also returned.

    Runs are kept in `out`/NAME.runs.jsonl as they are made, and taken up again from there if they are of the same
    weights, prompt and settings. Raises RuntimeError for a run that does not come to its own end, ValueError for a preset
    that can have no atlas.
    """
    settings = Settings.from_mapping(preset["settings"])
    if reason := why_none(settings):
        raise ValueError(f"{preset['name']} can have no atlas: {reason}")
    base = settings.to_dict()
    out.mkdir(parents=True, exist_ok=True)
    kept = out / f"{preset['name']}.runs.jsonl"
    probe = run(decode, preset["prompt"], Settings.from_mapping({**base, "max_new_tokens": 1}))
    origin = {"model": probe["model"], "version": probe["version"], "prompt": preset["prompt"], "settings": base}
    traces = _resume(kept, origin)
    for number, cell in enumerate(cells(), 1):
        if cell in traces:
            continue
        trace = stripped(run(decode, preset["prompt"], Settings.from_mapping(cell_settings(base, cell))))
        shared = [cell, *(one for one in same_run(cell, trace) if one not in traces)]
        traces.update(dict.fromkeys(shared, trace))
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cells": shared, "trace": trace}, ensure_ascii=False) + "\n")
        report(f"{preset['name']} {number}/{len(cells())}: length {cell[0]}, {'exact' if cell[1] is None else f'threshold {cell[1]:g}'}, "
               f"{len(trace['rounds'])} rounds, {trace['seconds']['total']:.1f} s" + (f", the same at {len(shared) - 1} more" if shared[1:] else ""))
    recorded = {"command": command, "preset": preset["name"], "date": datetime.date.today().isoformat(), "python": platform.python_version()}
    path = out / f"{preset['name']}.json"
    path.write_text(json.dumps(pack(traces, recorded), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    kept.unlink()
    return path


def run(decode: Decode, prompt: str, settings: Settings) -> Trace:
    """A whole run. Raises RuntimeError where it failed."""
    *_, trace = decode(prompt, settings)
    if trace["finish_reason"] == "error":
        raise RuntimeError(trace["message"])
    return trace


def same_run(cell: Cell, trace: Trace) -> list[Cell]:
    """The other cells of this length that need no run of their own: under their threshold every judgement is the same.

    A greedy run is fixed by its judgements, and the threshold enters nowhere else.
    """
    length, threshold = cell
    if threshold is None:
        return []
    judged = [
        (draft["draft_prob"], draft["target_prob"], draft["verdict"] == "accepted")
        for round_ in trace["rounds"] for draft in round_["drafts"] if draft["verdict"] in ("accepted", "rejected")
    ]
    return [
        (length, other) for other in THRESHOLDS
        if other != threshold and all(accept_ratio(q, p, other) == accepted for q, p, accepted in judged)
    ]


def _resume(kept: Path, origin: dict[str, Any]) -> dict[Cell, Trace]:
    """The runs made so far; a file of other weights, or whose last line is cut off, is begun anew or cut there."""
    traces: dict[Cell, Trace] = {}
    good = []
    if kept.exists():
        first, *lines = kept.read_text(encoding="utf-8").splitlines() or [""]
        for line in lines if first == _line(origin) else []:
            try:
                made = json.loads(line)
            except ValueError:
                break
            traces.update(dict.fromkeys(((length, threshold) for length, threshold in made["cells"]), made["trace"]))
            good.append(line)
    kept.write_text("\n".join([_line(origin), *good]) + "\n", encoding="utf-8")
    return traces


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
