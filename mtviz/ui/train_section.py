"""Training on the Heads page: a text becomes a byte-level model with its heads, in a process of its own, while one watches.

One training runs at a time; the others stand in line, with the measurements that need a process of their own. Files come and go
in pieces through the functions that the browser may call, since the host lets no uploads through.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any, AsyncIterator, Callable

import gradio as gr

from mtviz.hosting import Limits, Line, LineFull
from mtviz.service import ASSETS, Service
from mtviz.settings import Bound, SettingsError
from mtviz.views import stream
from mtviz.views.stage import STAGE

TRAIN = ASSETS / "train_section"
ROOT = ASSETS.parent
SAMPLES = ("source", "docs", "chinese")
FAMILIES = ("hierarchical", "parallel", "adaptive")  # the first is the one that is shipped
STRATEGIES = ("plain", "weighted", "progressive")
HEADS = Bound(1, 8, 1, integer=True)
LEAST_BYTES, MOST_BYTES = 1_000, 1_000_000
MOST_MODEL_BYTES = 8_000_000
PIECE_BYTES = 96 * 1024  # of a file, in one request
KEPT_FILES = 12
POINTS = 150  # of a curve, over the whole training
BEAT = 0.5  # seconds between updates: a visitor who has left is noticed at the next one
STARTING = 120  # seconds that a busy machine may take until the first step
PATIENCE = 5  # a training may take so many times its minutes on the clock, pauses included
_SCRIPTS = (*(STAGE / f"{name}.js" for name in ("dom", "strings")), *(TRAIN / f"{name}.js" for name in ("pieces", "curves", "train")))


def build(service: Service, limits: Limits, line: Line) -> None:
    bench = Bench(service, limits, line)

    # Gradio passes one argument to a function that the browser calls.
    async def piece(asked: Any) -> dict[str, Any]:
        return _answer(lambda: bench.take_piece(asked))

    async def steer(asked: Any) -> dict[str, Any]:
        return _answer(lambda: bench.steer(asked))

    async def load(asked: Any) -> dict[str, Any]:
        return await asyncio.to_thread(_answer, lambda: bench.load(asked))

    async def weights(asked: Any) -> dict[str, Any]:
        return _answer(lambda: bench.weights(asked))

    section = gr.HTML(
        value=None,
        html_template='<div class="mtviz-stage mtviz-train"></div>',
        js_on_load=train_script() + "connectTraining(element.querySelector('.mtviz-train'), {props, trigger, server, watch});",
        apply_default_css=False,
        config=json.dumps(bench.config(), ensure_ascii=False),
        server_functions=[piece, steer, load, weights],
        elem_id="train",
    )

    async def train(event: gr.EventData) -> AsyncIterator[str]:
        async with aclosing(bench.train(event._data)) as updates:
            async for text in updates:
                yield text

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "api_name": "train"}
    running = section.train(train, None, section, concurrency_limit=None, **quiet)
    section.halt(None, None, None, cancels=[running], **quiet)


class Bench:
    """Where trainings stand in line, with the files that visitors sent for them."""

    def __init__(self, service: Service, limits: Limits, line: Line) -> None:
        self._service, self._line = service, line
        self._minutes = Bound(0, limits.train_minutes, 0.5, low_open=True)
        self._running: dict[str, Any] = {}  # by name, what Service.train gave
        self._files: dict[str, bytearray] = {}

    def config(self) -> dict[str, Any]:
        shipped = json.loads((ASSETS / "bytes" / "bytes.provenance.json").read_text(encoding="utf-8"))
        return {
            "strings": json.loads((TRAIN / "strings.json").read_text(encoding="utf-8")),
            "samples": list(SAMPLES),
            "kinds": list(FAMILIES),
            "shipped": {"name": "bytes", "family": shipped["model"]["kind"], "heads": shipped["model"]["heads"], "minutes": shipped["schedule"]["minutes"]},
            "strategies": list(STRATEGIES),
            "bounds": {"heads": vars(HEADS), "minutes": vars(self._minutes), "text": {"low": LEAST_BYTES, "high": MOST_BYTES}},
            "piece_bytes": PIECE_BYTES,
            "most_model_bytes": MOST_MODEL_BYTES,
        }

    async def train(self, asked: Any) -> AsyncIterator[str]:
        """The training that the browser asked for as growing text (`mtviz.views.stream`): how many are `ahead`, then points of the
        log, at last the `model` or an `error`. Leaving it early ends the training."""
        head = stream.line({"run": time.time_ns() // 1_000_000, "training": True})
        try:
            with self._line.place() as ahead:
                name, minutes, chosen = self._read(asked)
                while waiting := ahead():
                    yield head + stream.line({"ahead": waiting})
                    await asyncio.sleep(BEAT)
                child = self._service.train(**chosen, minutes=minutes, wall_seconds=STARTING + 60 * PATIENCE * minutes)
                self._running[name] = child
                try:
                    async with aclosing(self._watch(child, head)) as updates:
                        async for update in updates:
                            yield update
                finally:
                    self._running.pop(name, None)
                    child.close()
        except SettingsError as error:
            yield head + stream.problem(error.field, str(error))
        except LineFull as error:
            yield head + stream.problem(None, str(error), code="full", waiting=error.waiting)

    async def _watch(self, child: Any, text: str) -> AsyncIterator[str]:
        points = 0
        over = False
        while not over:
            over = not child.running  # asked before reading, so that the last lines are read
            for record in child.lines():
                if "held_losses" in record or ("losses" in record and record["progress"] * POINTS >= points):
                    points = int(record["progress"] * POINTS) + 1
                    text += stream.line({"point": {name: record[name] for name in _SHOWN if name in record}})
                elif "event" in record:
                    text += stream.line({"event": record})
            yield text
            if not over:
                await asyncio.sleep(BEAT)
        if child.model is None:
            yield text + stream.problem(None, child.problem())
            return
        if child.killed:
            text += stream.line({"event": {"event": "killed"}})
        name, family = await asyncio.to_thread(self._service.add_model, child.model)
        yield text + stream.line({"model": {"name": name, "family": family, "bytes": child.model.stat().st_size}})

    def _read(self, asked: Any) -> tuple[str, float, dict[str, Any]]:
        """Name and minutes of a training, and what else `Service.train` takes. Raises SettingsError, naming the field and its bounds."""
        asked = asked if isinstance(asked, dict) else {}
        heads = _number("heads", asked.get("heads"), HEADS)
        minutes = _number("minutes", asked.get("minutes"), self._minutes)
        words = {name: asked.get(name) for name in ("kind", "strategy")}
        for name, allowed in (("kind", FAMILIES), ("strategy", STRATEGIES)):
            if words[name] not in allowed:
                raise SettingsError(name, f"must be one of {', '.join(allowed)}")
        text = sample(asked["sample"]) if asked.get("sample") in SAMPLES else bytes(self._files.pop(str(asked.get("file")), b""))
        if not LEAST_BYTES <= len(text) <= MOST_BYTES:
            raise SettingsError("text", f"has {len(text):,} bytes; training takes {LEAST_BYTES:,} to {MOST_BYTES:,} bytes, a page of text or more")
        return _token(asked.get("name")), float(minutes), {"text": text, "heads": int(heads), **words}

    def take_piece(self, asked: Any) -> dict[str, Any]:
        """One piece of a file: `file` is a token of the browser's own, `at` where the piece begins, `data` base64."""
        token, at, data = _token(asked["file"]), asked["at"], base64.b64decode(asked["data"], validate=True)
        if at == 0:
            self._files[token] = bytearray()
            for old in list(self._files)[:-KEPT_FILES]:
                del self._files[old]
        file = self._files.get(token, bytearray())
        if at != len(file) or at + len(data) > MOST_MODEL_BYTES:
            raise SettingsError("file", f"is not whole, or has more than {MOST_MODEL_BYTES:,} bytes")
        file += data
        return {"bytes": len(file)}

    def steer(self, asked: Any) -> dict[str, Any]:
        """Pause, go on or stop a training by its name, which only its own page knows."""
        child = self._running.get(_token(asked["name"]))
        if child is not None:
            {"pause": child.pause, "go_on": child.go_on, "stop": child.stop}[asked["to"]]()
        return {"running": child is not None}

    def load(self, asked: Any) -> dict[str, Any]:
        """Take over a model from a file that came in pieces: safetensors only, checked before anything is made of it."""
        data = self._files.pop(_token(asked["file"]), b"")
        with tempfile.TemporaryDirectory(prefix="mtviz-model-") as directory:
            path = Path(directory) / "model.safetensors"
            path.write_bytes(data)
            try:
                name, family = self._service.add_model(path)
            except ValueError as error:
                raise SettingsError("file", str(error).replace(str(path), "it")) from error
        return {"name": name, "family": family, "bytes": len(data)}

    def weights(self, asked: Any) -> dict[str, Any]:
        """A piece of a model's file, base64, and how many bytes it has in all."""
        file, at = self._service.model_file(str(asked["model"])), int(asked["at"])
        return {"data": base64.b64encode(file[max(0, at) : at + 10 * PIECE_BYTES]).decode("ascii"), "bytes": len(file)}


_SHOWN = ("progress", "bytes", "seconds", "active", "losses", "accuracy", "held_losses", "held_accuracy", "sample")


def sample(name: str) -> bytes:
    """A text that is at hand: this program's own source, its documentation, or its Chinese words."""
    if name == "source":
        parts = [path.read_bytes() for path in sorted((ROOT / "mtviz").rglob("*.py"))]
    elif name == "docs":
        parts = [path.read_bytes() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]]
    else:
        words = json.loads((ASSETS / "i18n" / "zh.json").read_text(encoding="utf-8")).values()
        parts = ["\n".join(word for word in words if isinstance(word, str)).encode("utf-8")]
    return b"\n".join(parts)[:MOST_BYTES].decode("utf-8", errors="ignore").encode("utf-8")


def train_style() -> str:
    return (TRAIN / "train.css").read_text(encoding="utf-8")


def train_script() -> str:
    """The modules in the order in which they use each other, as one script: `js_on_load` has no module loader."""
    joined = "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)
    return re.sub(r"^(?:import .*\n|export )", "", joined, flags=re.MULTILINE)


def _answer(act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `act` returns, or what was wrong with what the browser sent."""
    try:
        return act()
    except SettingsError as error:
        return {"error": {"field": error.field, "message": str(error)}}
    except (KeyError, TypeError, ValueError):
        return {"error": {"field": "file", "message": "The request was not understood."}}


def _number(name: str, value: Any, bound: Bound) -> int | float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and bound.low <= value <= bound.high
    if not good or (bound.low_open and value == bound.low) or (bound.integer and value != int(value)):
        raise SettingsError(name, f"must be {bound}; got {value!r:.40}")
    return value


def _token(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{32}", value):
        raise SettingsError("file", "was not sent")
    return value
