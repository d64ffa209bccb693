"""The Measure page: race, cost of a pass, speed, quality, memory and claims, drawn by assets/measure in the browser.

Everything on it is a recorded result of `assets/results` or `assets/atlas`, or was measured when the visitor asked for it.
Live measurements stand in the hall's line like every run (`in_line`), so that nothing else is on the device. Those that train, or
weigh a process's memory, run in one of their own and stand in the trainings' line (`beside`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from contextlib import aclosing, closing
from functools import cache
from typing import Any, AsyncIterator, Callable, Iterator

import gradio as gr

from mtviz.hosting import Hall, Limits, Line, LineFull
from mtviz.service import ASSETS, NoModel, Service, failure
from mtviz.settings import CHOICES, SettingsError
from mtviz.ui.train_section import BEAT, PATIENCE, STARTING, sample
from mtviz.ui.watch import read_settings
from mtviz.views import claims, stream
from mtviz.views.stage import STAGE

MEASURE = ASSETS / "measure"
log = logging.getLogger("mtviz")
LIVE_ROUNDS = 6  # of each length when a visitor asks for the cost of a pass
SWEEPS, BESIDE = ("lengths", "thresholds"), ("memory", "footprint", "tradeoff")  # what may be measured again, and where
SWEEP_PROMPTS, SWEEP_TOKENS = 2, 32
TRADEOFF_TEXT = "source"
TRADEOFF_MINUTES = 0.3  # of processor time a model: with the weighing, four of them take about three minutes
_MODULES = (
    "plot", "rows", "source", "again", "lanes", "outcome", "race", "cost", "lengths", "heat", "thresholds", "tradeoff", "memory", "claims", "measure",
)  # fmt: skip
_SCRIPTS = (*(STAGE / f"{name}.js" for name in ("dom", "strings", "utf8")), *(MEASURE / f"{name}.js" for name in _MODULES))


def build(service: Service, hall: Hall, line: Line) -> None:
    @cache  # read once, whatever the number of visitors
    def drawn() -> str:
        return json.dumps(recorded(service), ensure_ascii=False, allow_nan=False)

    async def results(_: None = None) -> str:
        return await asyncio.to_thread(drawn)

    page = gr.HTML(
        value=None,
        html_template='<div class="mtviz-stage mtviz-measure"></div>',
        js_on_load=_script() + "connectMeasure();",
        apply_default_css=False,
        config=json.dumps(_config(hall.limits), ensure_ascii=False),
        server_functions=[results],
        elem_id="measure",
    )

    async def race(event: gr.EventData) -> AsyncIterator[str]:
        async with aclosing(live_race(service, hall, event._data)) as updates:
            async for update in updates:
                yield update

    async def costs() -> AsyncIterator[str]:
        async with aclosing(in_line(hall, "costs", service.pass_cost(LIVE_ROUNDS))) as updates:
            async for update in updates:
                yield update

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "api_name": "measure"}
    racing = page.race(race, None, page, concurrency_limit=None, **quiet)
    page.costs(costs, None, page, concurrency_limit=None, **quiet)
    page.halt(None, None, None, cancels=[racing], **quiet)
    for asked in SWEEPS + BESIDE:
        running = getattr(page, asked)(_again(service, hall, line, asked), None, page, concurrency_limit=None, **quiet)
        getattr(page, f"halt_{asked}")(None, None, None, cancels=[running], **quiet)


def _again(service: Service, hall: Hall, line: Line, asked: str) -> Callable[[], AsyncIterator[str]]:
    """What measures one part again when a visitor asks for it."""
    sizes = _sizes(hall.limits)

    async def again() -> AsyncIterator[str]:
        told = in_line(hall, asked, service.sweep(asked, **sizes["sweep"])) if asked in SWEEPS else beside(service, line, asked, sizes["minutes"])
        async with aclosing(told) as updates:
            async for update in updates:
                yield update

    return again


def recorded(service: Service) -> dict[str, Any]:
    """What the page draws: the recorded results by file, the speedups that follow from them, the heat maps, the claims."""
    results = service.results()
    return {
        "results": results,
        "predicted": claims.predict(results["lengths"], results["pass_cost"]) if {"lengths", "pass_cost"} <= results.keys() else [],
        "heat": service.heat_maps(),
        "claims": claims.check(results),
    }


async def live_race(service: Service, hall: Hall, request: Any) -> AsyncIterator[str]:
    """The race that a browser asked for, as `in_line` tells it, or what was wrong with the request."""
    try:
        settings = read_settings(request)
        hall.limits.check(request.get("prompt"), settings)
    except SettingsError as error:
        yield _update(_run(), "race", stream.problem(error.field, str(error)))
        return
    async with aclosing(in_line(hall, "race", service.race(request["prompt"], settings))) as updates:
        async for update in updates:
            yield update


async def in_line(hall: Hall, asked: str, parts: Iterator[dict[str, Any]]) -> AsyncIterator[str]:
    """A live measurement in its turn, one line of JSON an update: {kind: "waiting", ahead} while it stands in line, then what
    `parts` yields, {kind: "problem", field, message} where something goes wrong. Each says by `asked` what was asked for.

    Args:
        parts: a generator that measures; it is advanced only when the measurement has the device.
    """
    run = _run()
    async with aclosing(hall.alone(_lines(parts, hall.limits))) as views:
        async for view in views:
            yield _update(run, asked, view.text or stream.line({"kind": "waiting", "ahead": view.ahead}))


async def beside(service: Service, line: Line, asked: str, minutes: float) -> AsyncIterator[str]:
    """A live measurement in a process of its own, told as by `in_line`: {kind: "progress", seconds} while it runs, with what, done and
    of where it says so. Leaving it early ends the process.

    Args:
        minutes: of processor time that each of the trade-off's models trains for.
    """
    run, seconds = _run(), STARTING + int(60 * PATIENCE * 10 * minutes)

    def told(update: dict[str, Any]) -> str:
        return _update(run, asked, stream.line(update))

    try:
        with line.place() as ahead:
            while waiting := ahead():
                yield told({"kind": "waiting", "ahead": waiting})
                await asyncio.sleep(BEAT)
            child, began = service.lab(asked, sample(TRADEOFF_TEXT), minutes, seconds), time.monotonic()
            try:
                while child.running and not child.overdue:
                    yield told({"kind": "progress", "seconds": int(time.monotonic() - began), **child.progress()})
                    await asyncio.sleep(BEAT)
                message = f"Stopped after {seconds} seconds, which is as long as it may take here." if child.running else child.problem()
                yield told(child.result or {"kind": "problem", "field": None, "message": message})
            finally:
                child.close()
    except LineFull as error:
        yield told({"kind": "problem", "field": None, "message": str(error), "code": "full", "waiting": error.waiting})
    except OSError as error:
        log.exception("a measurement did not start")
        yield told({"kind": "problem", "field": None, "message": failure(error)})


def _sizes(limits: Limits) -> dict[str, Any]:
    """How small a measurement is that a visitor asks for: of a sweep, and minutes of each training."""
    sweep = {"prompts": SWEEP_PROMPTS, "max_new_tokens": min(SWEEP_TOKENS, limits.max_new_tokens)}
    return {"sweep": sweep, "minutes": min(TRADEOFF_MINUTES, limits.train_minutes / 10)}


def _run() -> int:
    """A number that tells one answer from the next, though they say the same."""
    return time.time_ns() // 1_000_000


def _update(run: int, asked: str, text: str) -> str:
    """The last line of `text` as the page reads it."""
    update = json.loads(text.rstrip("\n").rpartition("\n")[2])
    if "error" in update:
        update = {"kind": "problem", **update["error"]}
    return json.dumps({"run": run, "asked": asked, **update}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _lines(parts: Iterator[dict[str, Any]], limits: Limits) -> Iterator[str]:
    began = time.monotonic()
    try:
        with closing(parts):
            for part in parts:
                yield stream.line(part)
                if time.monotonic() - began > limits.max_run_seconds:
                    yield stream.problem(None, f"Stopped after {limits.max_run_seconds} seconds, which is as long as a run may take here.")
                    return
    except (SettingsError, NoModel) as error:
        yield stream.problem(getattr(error, "field", None), str(error))
    except Exception as error:
        log.exception("a measurement failed")
        yield stream.problem(None, failure(error))


def _config(limits: Limits) -> dict[str, Any]:
    sizes = _sizes(limits)
    return {
        "sweep": {"prompts": sizes["sweep"]["prompts"], "tokens": sizes["sweep"]["max_new_tokens"]},
        "tradeoff": {"seconds": round(60 * sizes["minutes"])},
        "strings": json.loads((MEASURE / "strings.json").read_text(encoding="utf-8")),
        "bounds": {name: vars(bound) for name, bound in limits.bounds().items()},
        "drafters": [name for name in CHOICES["drafter"] if name != "none"],
        "max_prompt_characters": limits.max_prompt_characters,
    }


def measure_style() -> str:
    return (MEASURE / "measure.css").read_text(encoding="utf-8")


def _script() -> str:
    """The modules in the order in which they use each other, as one script: `js_on_load` has no module loader."""
    joined = "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)
    glue = (MEASURE / "gradio.js").read_text(encoding="utf-8")
    return re.sub(r"^(?:import .*\n|export )", "", joined, flags=re.MULTILINE) + glue
