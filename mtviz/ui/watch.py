"""The Watch page: the stage, drawn by assets/stage in the browser, and the chart below it.

The stage draws its own controls. It says what is wanted by the events "decode" and "halt"; what it shows is the
component's value, which grows by one line a round (the format is described in assets/stage/gradio.js).
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Iterator

import gradio as gr

from mtviz.service import ASSETS, NoModel, Service, Status
from mtviz.settings import BOUNDS, CHOICES, MAX_PROMPT_CHARACTERS, MODELS, Settings, SettingsError
from mtviz.trace import Trace, dumps, schema
from mtviz.views.charts import acceptance_by_position
from mtviz.views.stage import stage_script

DEVICE = "device"  # one run at a time: runs side by side would only slow each other and falsify the measured times
# The stage has its own margins; Gradio's would take a third of a phone's width.
PAGE_STYLE = (
    ".gradio-container{max-width:1280px!important;padding:0!important}"
    ".gradio-container .main.fillable{padding:12px clamp(8px,4vw,48px)!important}"
    ".gradio-container .html-container{padding:0!important}"
    ".gradio-container footer{display:none}"
)


def build(service: Service) -> None:
    # Gradio marks the functions that the browser may call, which it cannot do with bound methods, and always passes
    # one argument.
    def recorded(name: str) -> str:
        return dumps(service.recorded(name))

    async def atlas(name: str) -> str:
        return await asyncio.to_thread(service.atlas, name)

    def status(_: None = None) -> Status:
        return service.status()

    first = service.recorded(service.presets()[0]["name"])
    stage = gr.HTML(
        value=None,
        html_template='<div class="mtviz-stage"></div>',
        js_on_load=stage_script() + (ASSETS / "stage" / "gradio.js").read_text(encoding="utf-8") + "connectStage();",
        apply_default_css=False,
        config=json.dumps(_config(service, first), ensure_ascii=False),
        server_functions=[recorded, atlas, status],
        elem_id="stage",
    )
    with gr.Accordion("Acceptance by position", open=False):
        chart = gr.Plot(acceptance_by_position(first), show_label=False, elem_id="acceptance")

    def decode(event: gr.EventData) -> Iterator[tuple[str, Any]]:
        yield from run(service, event._data)

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "api_name": "stage"}  # "decode" is the public endpoint
    running = stage.decode(decode, None, [stage, chart], concurrency_id=DEVICE, concurrency_limit=1, **quiet)
    stage.halt(None, None, None, cancels=[running], **quiet)


def _config(service: Service, first: Trace) -> dict[str, Any]:
    return {
        "bounds": {name: vars(bound) for name, bound in BOUNDS.items()},
        "choices": {name: list(allowed) for name, allowed in CHOICES.items()} | {"model": list(MODELS)},
        "heads_of": MODELS,
        "schema": schema(),
        "max_prompt_characters": MAX_PROMPT_CHARACTERS,
        "defaults": Settings().to_dict(),
        "presets": service.presets(),
        "status": service.status(),
        "first": first,
        "strings": {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (ASSETS / "i18n").glob("*.json")},
    }


def run(service: Service, request: Any) -> Iterator[tuple[str, Any]]:
    """One update a round: the stage's text so far, and the chart with the last one. Bad input becomes a line of its own."""
    head = {"run": time.time_ns() // 1_000_000, "source": "live"}
    try:
        if not isinstance(request, dict) or not isinstance(request.get("settings"), dict):
            raise SettingsError("settings", "are missing")
        settings = Settings.from_mapping(request["settings"])
        text, sent = "", 0
        for trace in service.decode(request.get("prompt"), settings):
            if not text:
                text = _line({**head, "busy": True, "trace": {**trace, "rounds": []}})
            for round_ in trace["rounds"][sent:]:  # none where the run has failed since
                text += _line({"round": round_, "seconds": trace["seconds"]})
            sent = len(trace["rounds"])
            done = trace["finish_reason"] is not None
            if done:
                text += _line({"end": {name: trace[name] for name in ("finish_reason", "message", "output", "seconds") if name in trace}})
            yield text, acceptance_by_position(trace) if done else gr.skip()
    except (SettingsError, NoModel) as error:
        problem = {"field": getattr(error, "field", None), "message": str(error)}
        yield _line({**head, "busy": False, "error": problem}), gr.skip()


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"
