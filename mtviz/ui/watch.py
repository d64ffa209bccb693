"""The Watch page: the stage, drawn by assets/stage in the browser, and the chart below it.

The stage draws its own controls. It says what is wanted by the events "decode" and "stop"; what it shows is the
component's value, which grows by one round at a time.
"""

from __future__ import annotations

import json
import time
from typing import Any, Iterator

import gradio as gr
import plotly.graph_objects as go

from mtviz.service import ASSETS, NoModel, Service
from mtviz.settings import BOUNDS, CHOICES, MAX_PROMPT_CHARACTERS, Settings, SettingsError
from mtviz.trace import Trace
from mtviz.views.charts import acceptance_by_position
from mtviz.views.stage import stage_script

DEVICE = "device"  # one run at a time: runs side by side would only slow each other and falsify the measured times
PAGE_STYLE = (
    ".gradio-container{max-width:1280px!important;padding:0 16px!important}"
    ".gradio-container footer{display:none}"
)
_GLUE = """
const root = element.querySelector('.mtviz-stage');
const stage = mountStage(root, {
  config: props.config,
  canDecode: true,
  decode: (payload) => trigger('decode', payload),
  stop: () => trigger('halt'),
  loadPreset: (name) => server.recorded(name),
});
watch('value', () => stage.show(props.value));
const askStatus = async () => {
  const status = await server.status();
  stage.show({status});
  if (status.loading) setTimeout(askStatus, 1500);
};
askStatus();
"""


def build(service: Service) -> None:
    first = service.recorded(service.presets()[0]["name"])
    stage = gr.HTML(
        value=None,
        html_template='<div class="mtviz-stage"></div>',
        js_on_load=stage_script() + _GLUE,
        apply_default_css=False,
        config=_config(service, first),
        server_functions=[service.recorded, service.status],
        elem_id="stage",
    )
    with gr.Accordion("Acceptance by position", open=False):
        chart = gr.Plot(acceptance_by_position(first), show_label=False, elem_id="acceptance")

    def decode(event: gr.EventData) -> Iterator[tuple[dict[str, Any], go.Figure | dict]]:
        yield from _run(service, event._data)

    run = stage.decode(decode, None, [stage, chart], concurrency_id=DEVICE, concurrency_limit=1, show_progress="hidden", api_visibility="private")
    stage.halt(None, None, None, cancels=[run], show_progress="hidden", api_visibility="private")


def _config(service: Service, first: Trace) -> dict[str, Any]:
    return {
        "bounds": {name: vars(bound) for name, bound in BOUNDS.items()},
        "choices": {name: list(allowed) for name, allowed in CHOICES.items()},
        "max_prompt_characters": MAX_PROMPT_CHARACTERS,
        "defaults": Settings().to_dict(),
        "presets": service.presets(),
        "status": service.status(),
        "first": first,
        "strings": {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (ASSETS / "i18n").glob("*.json")},
    }


def _run(service: Service, request: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """One update a round: the stage's value, and the chart with the last one. Bad input becomes an update with its error."""
    run = time.time_ns() // 1_000_000
    try:
        if not isinstance(request, dict) or not isinstance(request.get("settings"), dict):
            raise SettingsError("settings", "are missing")
        settings = Settings.from_mapping(request["settings"])
        for trace in service.decode(request.get("prompt"), settings):
            done = trace["finish_reason"] is not None
            value = {"trace": _snapshot(trace), "run": run, "source": "live", "busy": not done}
            yield value, acceptance_by_position(trace) if done else gr.skip()
    except (SettingsError, NoModel) as error:
        field = getattr(error, "field", None)
        yield {"error": {"field": field, "message": str(error)}, "run": run, "source": "live", "busy": False}, gr.skip()


def _snapshot(trace: Trace) -> Trace:
    """A copy that later rounds do not change; the rounds themselves are shared, so that it costs little."""
    output = trace["output"]
    return {
        **trace,
        "rounds": list(trace["rounds"]),
        "output": {"text": output["text"], "tokens": list(output["tokens"])},
        "seconds": dict(trace["seconds"]),
    }
