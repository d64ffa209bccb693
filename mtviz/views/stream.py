"""A run as lines of text, one JSON value a line, so that a run that grows is sent as its new end.

First the Trace without its rounds, then one line a round, last how it ended; or, in place of any of it, what went wrong.
`assets/stage/gradio.js` reads them in the browser, `read` does here.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Iterator

from mtviz.trace import Trace

_WHOLE = ("stop", "length", "context")


class Refused(ValueError):
    """The lines hold no Trace but what went wrong. The message is for the visitor; `field` is the setting at fault, or None."""

    def __init__(self, problem: dict[str, Any]):
        super().__init__(problem["message"])
        self.field = problem["field"]


def line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def problem(field: str | None, message: str, **more: Any) -> str:
    return line({"busy": False, "error": {"field": field, "message": message, **more}})


def lines(traces: Iterable[Trace]) -> Iterator[str]:
    """The lines of a growing Trace, those of one update together."""
    sent = None
    for trace in traces:
        text = ""
        if sent is None:
            text, sent = line({"trace": {**trace, "rounds": []}}), 0
        for round_ in trace["rounds"][sent:]:  # none where the run has failed since
            text += line({"round": round_, "seconds": trace["seconds"]})
        sent = len(trace["rounds"])
        if trace["finish_reason"] is not None:
            text += line({"end": {name: trace[name] for name in ("finish_reason", "message", "output", "seconds") if name in trace}})
        yield text


def is_whole(text: str) -> bool:
    """Whether the run came to its own end, so that asking again would give the same."""
    last = json.loads(text[text.rstrip("\n").rfind("\n") + 1 :] or "null")
    return bool(last) and last.get("end", {}).get("finish_reason") in _WHOLE


def read(text: str) -> Trace:
    """The Trace that the lines tell. Raises `Refused` where they tell what went wrong."""
    trace: Any = {}
    for event in map(json.loads, filter(None, text.split("\n"))):  # `splitlines` would split inside of what a visitor wrote
        if "error" in event:
            raise Refused(event["error"])
        if "trace" in event:
            trace = event["trace"]
        elif "round" in event:
            trace["rounds"].append(event["round"])
            trace["seconds"] = event["seconds"]
        else:
            trace.update(event["end"])
    return trace
