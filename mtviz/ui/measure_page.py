"""The Measure page: race, cost of a pass, speed, quality, memory and claims, drawn by assets/measure in the browser.

Everything on it is a recorded result of `assets/results` or `assets/atlas`, or was measured when the visitor asked for it.
Live measurements go through Gradio's queue, one at a time, and through the service's lock, so that nothing runs beside them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from contextlib import closing
from functools import cache
from typing import Any, Iterator

import gradio as gr

from mtviz.hosting import Limits
from mtviz.service import ASSETS, NoModel, Service, failure
from mtviz.settings import CHOICES, SettingsError
from mtviz.ui.watch import read_settings
from mtviz.views import claims
from mtviz.views.stage import STAGE

MEASURE = ASSETS / "measure"
MEASURING = "measure"  # one measurement at a time: side by side they would only slow each other
log = logging.getLogger("mtviz")
LIVE_ROUNDS = 6  # of each length when a visitor asks for the cost of a pass
_MODULES = (
    "plot", "rows", "source", "lanes", "outcome", "race", "cost", "lengths", "heat", "thresholds", "tradeoff", "memory", "claims", "measure",
)  # fmt: skip
_SCRIPTS = (*(STAGE / f"{name}.js" for name in ("dom", "strings", "utf8")), *(MEASURE / f"{name}.js" for name in _MODULES))


def build(service: Service, limits: Limits) -> None:
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
        config=json.dumps(_config(limits), ensure_ascii=False),
        server_functions=[results],
        elem_id="measure",
    )

    def race(event: gr.EventData) -> Iterator[str]:
        yield from live_race(service, limits, event._data)

    def costs() -> Iterator[str]:
        yield from _told(service.pass_cost(LIVE_ROUNDS), limits)

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "api_name": "measure"}
    running = [
        page.race(race, None, page, concurrency_id=MEASURING, concurrency_limit=1, **quiet),
        page.costs(costs, None, page, concurrency_id=MEASURING, concurrency_limit=1, **quiet),
    ]
    page.halt(None, None, None, cancels=running, **quiet)


def recorded(service: Service) -> dict[str, Any]:
    """What the page draws: the recorded results by file, the speedups that follow from them, the heat maps, the claims."""
    results = service.results()
    return {
        "results": results,
        "predicted": claims.predict(results["lengths"], results["pass_cost"]) if {"lengths", "pass_cost"} <= results.keys() else [],
        "heat": service.heat_maps(),
        "claims": claims.check(results),
    }


def live_race(service: Service, limits: Limits, request: Any) -> Iterator[str]:
    """One line of JSON an update: how far the lanes are, and last the race, or what was wrong with the request."""
    try:
        settings = read_settings(request)
        limits.check(request.get("prompt"), settings)
    except SettingsError as error:
        yield _line({"kind": "problem", "field": error.field, "message": str(error)})
        return
    yield from _told(service.race(request["prompt"], settings), limits)


def _told(parts: Iterator[dict[str, Any]], limits: Limits) -> Iterator[str]:
    run, began = time.time_ns() // 1_000_000, time.monotonic()
    try:
        with closing(parts):
            for part in parts:
                yield _line({"run": run, **part})
                if time.monotonic() - began > limits.max_run_seconds:
                    message = f"Stopped after {limits.max_run_seconds} seconds, which is as long as a run may take here."
                    yield _line({"run": run, "kind": "problem", "field": None, "message": message})
                    return
    except (SettingsError, NoModel) as error:
        yield _line({"run": run, "kind": "problem", "field": getattr(error, "field", None), "message": str(error)})
    except Exception as error:
        log.exception("a measurement failed")
        yield _line({"run": run, "kind": "problem", "field": None, "message": failure(error)})


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _config(limits: Limits) -> dict[str, Any]:
    return {
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
