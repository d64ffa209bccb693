"""The atlas of a preset: one prompt run at every proposal length and threshold, packed into columns.

Knobs on the page then act on whole recorded runs. Greedy runs of one prompt share most of their contexts, so equal
positions are stored once, a run is a list of them, and what the engine derives from a position (ratio, gate, verdict,
bias, cache lengths) is derived again. `pack` proves that this gives back each Trace, but for the candidates that an
atlas leaves out, and that numbers are held to four significant digits, times to three, probabilities to more where a judgement hangs on it.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, TypedDict

from mtviz import rules, text
from mtviz.settings import Settings
from mtviz.trace import SCHEMA, SCHEMA_FILE, Trace, TraceError

ATLAS_SCHEMA_FILE = SCHEMA_FILE.with_name("atlas.schema.json")
LENGTHS = tuple(range(1, 9))
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0)
DIGITS = (4, 6, 17)
_FEW = 3  # digits of a measured time, as many as are shown, and of a draw, which decides nothing at temperature 0

Cell = tuple[int, float | None]
"""Proposal length and threshold of the ratio rule; None for the exact rule."""


class Atlas(TypedDict):
    """Columns. A number that names a token, a position or a run is an index; `positions` and `afters` of a run are steps
    from the index that follows the one before."""

    schema: int
    recorded: dict[str, str]
    model: dict[str, Any]
    host: str
    version: str
    settings: dict[str, Any]  # of all runs, but for rule, length and threshold
    prompt: dict[str, Any]
    prefill: dict[str, Any]
    ends: list[int]  # end tokens
    tokens: dict[str, Any]  # id, text, and bytes by index
    uniforms: list[float]
    positions: dict[str, list[float]]  # token, trunk (token), draft_prob, target_prob, trunk_prob, entropy
    afters: dict[str, list[float]]  # trunk (token), prob, entropy
    runs: list[dict[str, Any]]
    lengths: list[int]
    thresholds: list[float]
    ratio: list[list[int]]  # run by length, then threshold
    exact: list[int]  # run by length


def cells() -> list[Cell]:
    """Every run that an atlas holds: 8 lengths by 9 thresholds, and 8 lengths for the exact rule."""
    return [(length, threshold) for length in LENGTHS for threshold in (None, *THRESHOLDS)]


def cell_settings(settings: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    length, threshold = cell
    chosen = {"rule": "match"} if threshold is None else {"rule": "ratio", "threshold": threshold}
    return {**settings, "num_draft_tokens": length, **chosen}


def why_none(settings: Settings) -> str | None:
    """Why a preset with these settings has no atlas; None where it has one."""
    if settings.temperature > 0:
        return "at a temperature above 0 runs differ by chance, not only by the knob"
    if settings.top_k or settings.top_p < 1:
        return "under top-k or top-p the raw probabilities would have to be stored too"
    return None


# --- packing -----------------------------------------------------------------------------------------------------


def stripped(trace: Trace) -> Trace:
    """The Trace as far as an atlas holds it: without the top-8 (but the trunk's own choice), residuals and load time."""
    kept = json.loads(json.dumps(trace))
    kept["prefill"]["top_target"] = []
    kept["seconds"]["load"] = 0.0
    for round_ in kept["rounds"]:
        for place in (*round_["drafts"], round_["after"]):
            trunk = place["trunk_token"]["id"]
            place["top_target"] = [one for one in place["top_target"] if one["token"]["id"] == trunk]
        for draft in round_["drafts"]:
            draft["top_draft"] = []
            draft.pop("residual", None)
    return kept


def pack(traces: Mapping[Cell, Trace], recorded: dict[str, str]) -> Atlas:
    """Pack one Trace for each of `cells()`; cells may share one. They must be runs of one prompt at temperature 0.

    Raises ValueError where what is unpacked would not be the Trace, naming the cell and the place.
    """
    runs = {id(trace): trace for trace in traces.values()}
    numbers = {key: i for i, key in enumerate(runs)}
    first = next(iter(runs.values()))
    tokens, positions, afters = _Table(), _Table(), _Table()
    texts: dict[int, text.Token] = {}
    uniforms: list[float] = []
    ends: set[int] = set()

    def token(piece: text.Token) -> int:
        texts[piece["id"]] = piece
        return tokens.add((piece["id"],))

    def position(draft: dict[str, Any]) -> int:
        if draft.get("ends"):
            ends.add(draft["token"]["id"])
        draft_prob, target_prob = _rounded_together(draft["draft_prob"], draft["target_prob"])
        return positions.add((token(draft["token"]), token(draft["trunk_token"]), draft_prob, target_prob, _trunk_prob(draft), _round(draft["entropy"])))

    def uniform(us: list[float]) -> int:
        """Where in the run's stream of draws these stand; all runs of one seed share the stream."""
        wanted = [_round(u, _FEW) for u in us]
        at = next((i for i in range(len(uniforms)) if uniforms[i : i + len(wanted)] == wanted), None)
        if at is None:
            at = len(uniforms)
            uniforms.extend(wanted)
        return at

    packed = []
    for trace in runs.values():
        rounds = trace["rounds"]
        packed.append({
            "drafted": [len(round_["drafts"]) for round_ in rounds],
            "accepted": [sum(draft["verdict"] == "accepted" for draft in round_["drafts"]) for round_ in rounds],
            "positions": _steps([position(draft) for round_ in rounds for draft in round_["drafts"]]),
            "afters": _steps([afters.add((token(one["trunk_token"]), _round(one["target_prob"]), _round(one["entropy"]))) for one in (r["after"] for r in rounds)]),
            "uniforms": _steps([uniform([draft["u"] for draft in round_["drafts"]]) for round_ in rounds]),
            "draft_ms": [_round(1000 * round_["seconds"]["draft"], _FEW) for round_ in rounds],
            "verify_ms": [_round(1000 * round_["seconds"]["verify"], _FEW) for round_ in rounds],
            "seconds": {name: _round(seconds) for name, seconds in trace["seconds"].items() if name != "load"},
            "finish_reason": trace["finish_reason"],
        })
    prefill = {**first["prefill"], "token": token(first["prefill"]["token"])}
    for trace in runs.values():
        if trace["finish_reason"] == "stop":
            ends.add(trace["output"]["tokens"][-1]["id"])
    for name in ("top_target", "seconds"):
        del prefill[name]
    ids = [id_ for (id_,) in tokens.rows]
    atlas: Atlas = {
        "schema": SCHEMA, "recorded": recorded, "model": first["model"], "host": first["host"], "version": first["version"],
        "settings": first["settings"], "prompt": first["prompt"], "prefill": prefill, "ends": sorted(ends),
        "tokens": {"id": ids, "text": [texts[i]["text"] for i in ids], "bytes": {str(n): texts[i]["bytes"] for n, i in enumerate(ids) if "bytes" in texts[i]}},
        "uniforms": uniforms,
        "positions": positions.columns("token", "trunk", "draft_prob", "target_prob", "trunk_prob", "entropy"),
        "afters": afters.columns("trunk", "prob", "entropy"),
        "runs": packed, "lengths": list(LENGTHS), "thresholds": list(THRESHOLDS),
        "ratio": [[numbers[id(traces[length, threshold])] for threshold in THRESHOLDS] for length in LENGTHS],
        "exact": [numbers[id(traces[length, None])] for length in LENGTHS],
    }
    for cell, trace in traces.items():
        wanted = stripped(trace) | {"settings": cell_settings(first["settings"], cell)}
        place = _difference(_under(wanted), expand(atlas, cell))
        if place is not None:
            raise ValueError(f"cell {cell}: {place} would not come back")
    return atlas


def _under(trace: Trace) -> Trace:
    """A run with its gates as its settings put them: cells may share a run of another threshold."""
    settings = Settings.from_mapping(trace["settings"])
    for round_ in trace["rounds"]:
        for draft in round_["drafts"]:
            draft["gate"] = _gate(draft, settings)
    return trace


class _Table:
    """Rows, each stored once, by the order in which they first came."""

    def __init__(self) -> None:
        self.rows: dict[tuple, int] = {}

    def add(self, row: tuple) -> int:
        return self.rows.setdefault(row, len(self.rows))

    def columns(self, *names: str) -> dict[str, list]:
        return {name: [row[i] for row in self.rows] for i, name in enumerate(names)}


def _round(value: float, digits: int = DIGITS[0]) -> float:
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded


def _rounded_together(draft_prob: float, target_prob: float) -> tuple[float, float]:
    """Both with as many digits as keep every judgement of the ratio rule at the atlas's thresholds what it was."""
    for digits in DIGITS:
        pair = _round(draft_prob, digits), _round(target_prob, digits)
        if all(rules.accept_ratio(*pair, t) == rules.accept_ratio(draft_prob, target_prob, t) for t in THRESHOLDS):
            return pair
    return draft_prob, target_prob


def _trunk_prob(draft: dict[str, Any]) -> float:
    trunk = draft["trunk_token"]["id"]
    return next(_round(one["prob"]) for one in draft["top_target"] if one["token"]["id"] == trunk)


def _steps(indices: list[int]) -> list[int]:
    """Each as a step from the index that follows the one before: mostly zeros, where runs share contexts."""
    return [index - before - 1 for before, index in zip([-1, *indices], indices)]


def _difference(a: Any, b: Any, place: str = "") -> str | None:
    """The first place where two pieces of JSON differ by more than the digits left out; None where there is none."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return next((found for name in a if (found := _difference(a[name], b[name], f"{place}.{name}"))), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((found for i, one in enumerate(a) if (found := _difference(one, b[i], f"{place}[{i}]"))), None)
    if isinstance(a, float) and isinstance(b, (int, float)):
        few = place.endswith((".u", ".draft", ".verify"))
        return None if math.isclose(a, b, rel_tol=2 * 10 ** (1 - (_FEW if few else DIGITS[0]))) else place
    return None if a == b and type(a) is type(b) else f"{place} ({a!r:.40} and {b!r:.40})"


# --- unpacking ---------------------------------------------------------------------------------------------------


def expand(atlas: Atlas, cell: Cell) -> Trace:
    """The run of one cell as a Trace. `assets/stage/atlas.js` does the same."""
    length, threshold = cell
    row = atlas["lengths"].index(length)
    number = atlas["exact"][row] if threshold is None else atlas["ratio"][row][atlas["thresholds"].index(threshold)]
    run = atlas["runs"][number]
    values = cell_settings(atlas["settings"], cell)
    settings = Settings.from_mapping(values)
    prefill = atlas["prefill"]
    piece = _pieces(atlas)
    first = piece(prefill["token"])
    output = [first]
    rounds: list[Any] = []
    places, later, draws = _indices(run["positions"]), _indices(run["afters"]), _indices(run["uniforms"])
    for index, (drafted, accepted) in enumerate(zip(run["drafted"], run["accepted"])):
        start = prefill["length"] + len(output)
        after, die = next(later), next(draws)
        drafts = [_draft(atlas, piece, i, next(places), atlas["uniforms"][die + i] if drafted else 0.0, settings) for i in range(drafted)]
        trunk, prob, entropy = (atlas["afters"][name][after] for name in ("trunk", "prob", "entropy"))
        ended = accepted > 0 and drafts[accepted - 1].get("ends", False)
        for i, draft in enumerate(drafts):
            draft["verdict"] = "accepted" if i < accepted else "discarded" if ended else "rejected" if i == accepted else "unjudged"
            if i < accepted or (i == accepted and not ended):
                draft["bias_tv"] = float(i < accepted and draft["token"] != draft["trunk_token"])
        emitted = None
        if accepted < drafted and not ended:
            rejected = drafts[accepted]
            emitted = {"kind": "recovered", "token": rejected["trunk_token"], "prob": rejected["top_target"][0]["prob"]}
        elif not ended:
            emitted = {"kind": "bonus", "token": piece(trunk), "prob": prob}
        said = [draft["token"] for draft in drafts[:accepted]] + ([emitted["token"]] if emitted else [])
        output += said
        rounds.append({
            "index": index, "start": start, "drafts": drafts,
            "after": {"trunk_token": piece(trunk), "target_prob": prob, "raw_target_prob": prob, "entropy": entropy, "top_target": _top(piece(trunk), prob)},
            "emitted": emitted, "cache": {"before": start - 1, "peak": start + drafted, "after": start + len(said) - 1},
            "seconds": {"draft": run["draft_ms"][index] / 1000, "verify": run["verify_ms"][index] / 1000},
        } | ({"copied": True} if drafted and settings.drafter == "lookup" else {}))
    return {
        "schema": SCHEMA, "model": atlas["model"], "settings": values, "prompt": atlas["prompt"],
        "prefill": {**prefill, "token": first, "top_target": [], "seconds": run["seconds"]["prefill"]},
        "rounds": rounds,
        "output": {"text": text.join(one for one in output if one["id"] not in atlas["ends"]), "tokens": output},
        "finish_reason": run["finish_reason"], "seconds": {"load": 0.0, **run["seconds"]}, "host": atlas["host"], "version": atlas["version"],
    }


def _pieces(atlas: Atlas) -> Callable[[int], text.Token]:
    ids, texts, held = (atlas["tokens"][name] for name in ("id", "text", "bytes"))

    def piece(index: int) -> text.Token:
        return {"id": ids[index], "text": texts[index]} | ({"bytes": held[str(index)]} if str(index) in held else {})

    return piece


def _indices(steps: list[int]) -> Iterator[int]:
    index = -1
    for step in steps:
        index += step + 1
        yield index


def _draft(atlas: Atlas, piece: Callable[[int], text.Token], i: int, at: int, u: float, settings: Settings) -> dict[str, Any]:
    names = ("token", "trunk", "draft_prob", "target_prob", "trunk_prob", "entropy")
    token, trunk, draft_prob, target_prob, trunk_prob, entropy = (atlas["positions"][name][at] for name in names)
    draft = {
        "position": i + 1, "offset": i + 2, "token": piece(token), "draft_prob": draft_prob, "target_prob": target_prob,
        "raw_draft_prob": draft_prob, "raw_target_prob": target_prob, "ratio": target_prob / draft_prob if draft_prob > 0 else None,
        "u": u, "entropy": entropy, "verdict": "unjudged", "bias_tv": None, "trunk_token": piece(trunk),
        "top_draft": [], "top_target": _top(piece(trunk), trunk_prob),
    }
    draft["gate"] = _gate(draft, settings)
    if draft["token"]["id"] in atlas["ends"]:
        draft["ends"] = True
    return draft


def _gate(draft: Mapping[str, Any], settings: Settings) -> float | None:
    return rules.gate(
        settings.rule, draft_prob=draft["draft_prob"], u=draft["u"], entropy=draft["entropy"], threshold=settings.threshold,
        epsilon=settings.epsilon, delta=settings.delta, temperature=settings.temperature,
    )


def _top(token: text.Token, prob: float) -> list[dict[str, Any]]:
    return [{"token": token, "prob": prob, "raw_prob": prob}]


# --- reading -----------------------------------------------------------------------------------------------------


@cache
def _validator() -> Callable[[Any], Any]:
    import fastjsonschema

    return fastjsonschema.compile(json.loads(ATLAS_SCHEMA_FILE.read_text(encoding="utf-8")), use_default=False)


@cache
def load(path: Path) -> str:
    """The text of an atlas file that has passed the schema and whose every index names something.

    Raises TraceError saying what is wrong, OSError where there is no such file.
    """
    import fastjsonschema

    source = path.read_text(encoding="utf-8")
    try:
        atlas = json.loads(source)
        _validator()(atlas)
    except fastjsonschema.JsonSchemaValueException as error:
        raise TraceError(f"{path.name}: {error.message.removeprefix('data.')[:300]}") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path.name}: not JSON: {error}") from None
    place = _misfit(atlas)
    if place:
        raise TraceError(f"{path.name}: {place} does not fit the other columns")
    return source


def _misfit(atlas: Atlas) -> str | None:
    tokens, positions, afters = len(atlas["tokens"]["id"]), len(atlas["positions"]["token"]), len(atlas["afters"]["trunk"])
    if len(atlas["tokens"]["text"]) != tokens or atlas["prefill"]["token"] >= tokens:
        return "tokens"
    for name, rows in (("positions", positions), ("afters", afters)):
        for column, values in atlas[name].items():
            if len(values) != rows or (column in ("token", "trunk") and max(values, default=0) >= tokens):
                return f"{name}.{column}"
    for number, run in enumerate(atlas["runs"]):
        rounds, drafted = len(run["drafted"]), sum(run["drafted"])
        sizes = {"accepted": rounds, "afters": rounds, "uniforms": rounds, "draft_ms": rounds, "verify_ms": rounds, "positions": drafted}
        limits = {"positions": positions, "afters": afters, "uniforms": len(atlas["uniforms"]) + 1}
        for name, size in sizes.items():
            if len(run[name]) != size or (name in limits and not all(0 <= index < limits[name] for index in _indices(run[name]))):
                return f"runs[{number}].{name}"
        if any(a > d for a, d in zip(run["accepted"], run["drafted"])):
            return f"runs[{number}].accepted"
    grid = [*atlas["exact"], *(number for row in atlas["ratio"] for number in row)]
    return "ratio" if max(grid) >= len(atlas["runs"]) or any(len(row) != len(atlas["thresholds"]) for row in atlas["ratio"]) else None
