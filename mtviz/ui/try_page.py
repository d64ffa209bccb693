"""The Try page: the tutorial's simulator by hand, drawn by assets/try in the browser.

The browser sends the table as it was typed, `MultiTokenDecoderSim` judges it here, and what is drawn is what it
returned. The history of rounds is kept by the page that shows it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Mapping

import gradio as gr
import numpy as np

from mtviz.service import ASSETS
from mtviz.settings import BOUNDS, Bound
from mtviz.simulator import MultiTokenDecoderSim
from mtviz.views.stage import STAGE

TRY = ASSETS / "try"
MAX_ROWS = int(BOUNDS["num_draft_tokens"].high)
FIELDS: dict[str, Bound] = {
    "max_proposal_len": Bound(1, BOUNDS["num_draft_tokens"].high, 1, integer=True),
    "min_accept_ratio": BOUNDS["threshold"],
    "token": Bound(0, 49_151, 1, integer=True),  # the default trunk's vocabulary
    "draft_prob": Bound(0, 1, 0.01),
    "target_prob": Bound(0, 1, 0.01),
}
_SCRIPTS = (STAGE / "dom.js", STAGE / "strings.js", STAGE / "format.js", STAGE / "memory.js", STAGE / "score.js", *(TRY / f"{name}.js" for name in ("table", "board", "history", "blanks", "try")))


class TryError(ValueError):
    """What was typed cannot be judged: in which row (from 1, or None), in which field, and what stands there."""

    def __init__(self, field: str, got: str, row: int | None = None):
        super().__init__(f"{f'row {row}: ' if row else ''}{field}: {got!r}")
        self.problem = {"field": field, "got": got, "row": row}


@dataclass(frozen=True)
class Hand:
    """A round as it is laid out by hand: the arguments of the simulator and of its `decode`."""

    max_proposal_len: int
    min_accept_ratio: float
    draft_tokens: list[int]
    draft_probs: list[float]
    target_probs: list[float]


def read_hand(typed: Any) -> Hand:
    """Read what the page sent; every number may be text. Raises TryError for the first thing that is wrong."""
    if not isinstance(typed, Mapping) or not isinstance(typed.get("rows"), list):
        raise TryError("rows", "")
    rows = [row if isinstance(row, Mapping) else {} for row in typed["rows"]]
    if not 1 <= len(rows) <= MAX_ROWS:
        raise TryError("rows", str(len(rows)))
    settings = [_number(name, typed.get(name)) for name in ("max_proposal_len", "min_accept_ratio")]
    read = [[_number(name, row.get(name), at) for name in ("token", "draft_prob", "target_prob")] for at, row in enumerate(rows, 1)]
    return Hand(*settings, *map(list, zip(*read)))


def _number(field: str, typed: Any, row: int | None = None) -> int | float:
    bound = FIELDS[field]
    text = "" if typed is None else str(typed).strip()
    shown = text if len(text) <= 24 else text[:23] + "…"
    if bound.integer and not re.fullmatch(r"[0-9]{1,9}", text):
        raise TryError(field, shown, row)
    try:
        value = int(text) if bound.integer else float(text)
    except ValueError:
        raise TryError(field, shown, row) from None
    if not math.isfinite(value) or not bound.low <= value <= bound.high or (bound.low_open and value == bound.low):
        raise TryError(field, shown, row)
    return value


def decode(hand: Hand) -> dict[str, Any]:
    """One round of the simulator, and for each row of the table the numbers that it compared there."""
    size = (len(hand.draft_tokens), max(hand.draft_tokens) + 1)
    draft_probs, target_probs = np.zeros(size, np.float32), np.zeros(size, np.float32)
    places = range(size[0]), hand.draft_tokens
    draft_probs[places], target_probs[places] = hand.draft_probs, hand.target_probs
    decoder = MultiTokenDecoderSim(hand.max_proposal_len, hand.min_accept_ratio)
    result = decoder.decode(draft_probs, target_probs, hand.draft_tokens)
    rows = []
    for at, token in enumerate(hand.draft_tokens):
        draft_prob, target_prob = float(draft_probs[at, token]), float(target_probs[at, token])
        rows.append({
            "token": token, "draft_prob": draft_prob, "target_prob": target_prob, "verdict": _verdict(at, result),
            "gate": draft_prob * decoder.min_accept_ratio, "ratio": target_prob / draft_prob if draft_prob > 0 else None,
        })  # fmt: skip
    return {"rows": rows, "result": result, "returns": repr(result), "min_accept_ratio": decoder.min_accept_ratio, "code": python_call(hand)}


def _verdict(at: int, result: Mapping[str, Any]) -> str:
    if at >= len(result["proposed_tokens"]):
        return "unproposed"
    if result["rejected_at"] is None or at < result["rejected_at"]:
        return "accepted"
    return "rejected" if at == result["rejected_at"] else "unjudged"


def python_call(hand: Hand) -> str:
    """The same round as a program of its own; `result` is what `decode` returned."""
    rows, vocabulary = len(hand.draft_tokens), max(hand.draft_tokens) + 1
    return f"""import numpy as np
from mtviz import MultiTokenDecoderSim

draft_tokens = {hand.draft_tokens}
draft_probs = np.zeros(({rows}, {vocabulary}))
target_probs = np.zeros(({rows}, {vocabulary}))
draft_probs[range({rows}), draft_tokens] = {hand.draft_probs}
target_probs[range({rows}), draft_tokens] = {hand.target_probs}

decoder = MultiTokenDecoderSim(max_proposal_len={hand.max_proposal_len}, min_accept_ratio={hand.min_accept_ratio})
result = decoder.decode(draft_probs, target_probs, draft_tokens)
print(result)
"""


def answer(typed: Any) -> dict[str, Any]:
    """What the page asks for: the round, or which field of which row stopped it."""
    try:
        return decode(read_hand(typed))
    except TryError as error:
        return {"problem": error.problem}


def try_style() -> str:
    return (TRY / "try.css").read_text(encoding="utf-8")


def build() -> None:
    gr.HTML(
        value=None,
        html_template='<div class="mtviz-stage mtviz-try"></div>',
        js_on_load=_script() + "mountTry(element.querySelector('.mtviz-try'), {config: JSON.parse(props.config), answer: server.answer});",
        apply_default_css=False,
        config=json.dumps(_config(), ensure_ascii=False),
        server_functions=[answer],
        elem_id="try",
    )


def _config() -> dict[str, Any]:
    read = {name: json.loads((TRY / f"{name}.json").read_text(encoding="utf-8")) for name in ("strings", "examples", "blanks")}
    return {**read, "max_rows": MAX_ROWS, "bounds": {name: vars(bound) for name, bound in FIELDS.items()}}


def _script() -> str:
    """The modules in the order in which they use each other, as one script: `js_on_load` has no module loader."""
    joined = "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)
    return re.sub(r"^(?:import .*\n|export )", "", joined, flags=re.MULTILINE)
