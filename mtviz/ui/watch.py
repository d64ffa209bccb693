"""The Watch page: the stage, drawn by assets/stage in the browser, and the chart below it.

The stage draws its own controls. It says what is wanted by the events "decode" and "halt"; what it shows is the
component's value, which grows by one line a round (the format is described in assets/stage/gradio.js).
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from functools import lru_cache
from typing import Any, AsyncIterator

import gradio as gr
from gradio.components.plot import PlotData

from mtviz.hosting import Hall, Limits
from mtviz.service import ASSETS, Service, Status
from mtviz.settings import CHOICES, MODELS, Settings, SettingsError
from mtviz.trace import Trace, dumps, schema
from mtviz.views import stream
from mtviz.views.charts import acceptance_by_position
from mtviz.views.stage import stage_script

# The stage has its own margins; Gradio's would take a third of a phone's width.
PAGE_STYLE = (
    ".gradio-container{max-width:1280px!important;padding:0!important}"
    ".gradio-container .main.fillable{padding:12px clamp(8px,4vw,48px)!important}"
    ".gradio-container .html-container{padding:0!important}"
    ".gradio-container footer{display:none}"
)


def build(service: Service, hall: Hall) -> None:
    # Gradio marks the functions that the browser may call, which it cannot do with bound methods, and always passes
    # one argument.
    texts: dict[str, str] = {}

    async def recorded(name: str) -> str:
        if name not in texts:  # read once, whatever the number of visitors
            texts[name] = dumps(service.recorded(name))
        return texts[name]

    async def atlas(name: str) -> str:
        return await asyncio.to_thread(service.atlas, name)

    async def status(_: None = None) -> Status:
        return service.status()

    first = service.recorded(service.presets()[0]["name"])
    stage = gr.HTML(
        value=None,
        html_template='<div class="mtviz-stage"></div>',
        js_on_load=stage_script() + (ASSETS / "stage" / "gradio.js").read_text(encoding="utf-8") + "connectStage();",
        apply_default_css=False,
        config=json.dumps(_config(service, hall.limits, first), ensure_ascii=False),
        server_functions=[recorded, atlas, status],
        elem_id="stage",
    )
    with gr.Accordion("Acceptance by position", open=False):
        chart = gr.Plot(acceptance_by_position(first), show_label=False, elem_id="acceptance")

    async def decode(event: gr.EventData) -> AsyncIterator[tuple[str, Any]]:
        async with aclosing(run(hall, event._data)) as updates:
            async for update in updates:
                yield update

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "api_name": "stage"}  # "decode" is the public endpoint
    # What is sent is ready as it is; postprocessing would take a thread for every visitor's every update.
    running = stage.decode(decode, None, [stage, chart], concurrency_limit=None, postprocess=False, **quiet)
    stage.halt(None, None, None, cancels=[running], **quiet)


def _config(service: Service, limits: Limits, first: Trace) -> dict[str, Any]:
    return {
        "bounds": {name: vars(bound) for name, bound in limits.bounds().items()},
        "choices": {name: list(allowed) for name, allowed in CHOICES.items()} | {"model": list(MODELS)},
        "heads_of": MODELS,
        "schema": schema(),
        "max_prompt_characters": limits.max_prompt_characters,
        "defaults": limits.defaults().to_dict(),
        "presets": service.presets(),
        "status": service.status(),
        "first": first,
        "glossary": json.loads((ASSETS / "glossary.json").read_text(encoding="utf-8")),
        "strings": {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (ASSETS / "i18n").glob("*.json")},
    }


async def run(hall: Hall, request: Any) -> AsyncIterator[tuple[str, Any]]:
    """The stage's text so far, one update a round at most, and the chart with the last one. What goes wrong is a line of its own.

    Until then there is no chart, which is None: Gradio would make a component anew, for every visitor, to skip it.
    """
    head = {"run": time.time_ns() // 1_000_000, "busy": True}
    try:
        settings = read_settings(request)
    except SettingsError as error:
        yield stream.line(head) + stream.problem(error.field, str(error)), None
        return
    async with aclosing(hall.watch(request.get("prompt"), settings)) as views:
        async for view in views:
            if not view.text:
                yield stream.line({**head, "ahead": view.ahead}), None
            else:
                start = stream.line({**head, "source": "kept" if view.kept else "live"})
                yield start + view.text, _chart(view.text) if view.done else None


def read_settings(request: Any) -> Settings:
    """The settings in what a browser sent. Raises SettingsError."""
    if not isinstance(request, dict) or not isinstance(request.get("settings"), dict):
        raise SettingsError("settings", "are missing")
    return Settings.from_mapping(request["settings"])


@lru_cache(maxsize=8)  # a whole class is shown the same run
def _chart(text: str) -> dict[str, Any] | None:
    try:
        return PlotData(type="plotly", plot=acceptance_by_position(stream.read(text)).to_json()).model_dump()
    except stream.Refused:
        return None
