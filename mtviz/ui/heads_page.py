"""The Heads page: how each family is wired, which token is whose, the families compared. Drawn by assets/heads_page in the browser.

What it draws is what the heads' files, recorded Traces and `python -m mtviz heads` say; what is not there is said to be missing.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import aclosing
from typing import Any, AsyncIterator

import gradio as gr

from mtviz.hosting import Hall, Limits
from mtviz.service import ASSETS, Service
from mtviz.settings import DRAFTERS, Bound, Settings, SettingsError
from mtviz.views import stream
from mtviz.views.stage import STAGE

HEADS = ASSETS / "heads_page"
RESULTS = ASSETS / "results" / "heads.json"  # of `python -m mtviz heads`
SENTENCE = 9  # tokens of a recorded run in the staircase
STEPS = 1000  # of the schedule strip
SCHEDULE: dict[str, Bound] = {"heads": Bound(1, 8, 1, integer=True), "steps_per_head": Bound(0, 500, 10, integer=True)}
_SCRIPTS = (
    *(STAGE / f"{name}.js" for name in ("dom", "strings", "format", "utf8", "token", "counts")),
    *(HEADS / f"{name}.js" for name in ("svg", "families", "wiring", "staircase", "chart", "film", "compare", "survival", "breath", "schedule", "heads")),
)


def build(service: Service, hall: Hall) -> None:
    # Gradio passes one argument to a function that the browser calls.
    def facts(_: None = None) -> dict[str, Any]:
        return page_facts(service)

    def compared(name: str) -> str:
        return json.dumps(service.compared(name), ensure_ascii=False, allow_nan=False)

    def progressive(asked: Any) -> list[list[int]]:
        return schedule(service, asked)

    config = _config(service, hall.limits)
    page = gr.HTML(
        value=None,
        html_template='<div class="mtviz-stage mtviz-heads"></div>',
        js_on_load=heads_script() + "connectHeads(element.querySelector('.mtviz-heads'), {props, trigger, server, watch});",
        apply_default_css=False,
        config=json.dumps(config, ensure_ascii=False),
        server_functions=[facts, compared, progressive],
        elem_id="heads",
    )

    async def compare(event: gr.EventData) -> AsyncIterator[str]:
        async with aclosing(run(hall, config["comparison"]["settings"], event._data)) as updates:
            async for text in updates:
                yield text

    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "api_name": "compare"}
    running = page.compare(compare, None, page, concurrency_limit=None, **quiet)
    page.halt(None, None, None, cancels=[running], **quiet)


def page_facts(service: Service) -> dict[str, Any]:
    """What stands on the page before anything is asked for. `results` is null where nothing was measured."""
    first = service.presets()[0]
    return {
        "stored": service.stored_heads(),
        "results": _results(),
        "sentence": {"preset": first["title"], "tokens": service.recorded(first["name"])["output"]["tokens"][:SENTENCE]},
    }


def _results() -> dict[str, Any] | None:
    """What was measured, without the texts and the counts of each, which are not drawn."""
    try:
        document = json.loads(RESULTS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    document.pop("texts", None)
    for row in document["results"]:
        row.pop("by_output", None)
    return document


def schedule(service: Service, asked: Any) -> list[list[int]]:
    """`Service.progressive` over STEPS steps, for numbers that the browser sent. Raises SettingsError for one out of bounds."""
    read = {}
    for name, bound in SCHEDULE.items():
        value = asked.get(name) if isinstance(asked, dict) else None
        if not isinstance(value, int) or not bound.low <= value <= bound.high:
            raise SettingsError(name, f"must be {bound}")
        read[name] = value
    return service.progressive(**read, steps=STEPS)


async def run(hall: Hall, settings: dict[str, Any], request: Any) -> AsyncIterator[str]:
    """One prompt with every drafter, one after the other, as growing text: for each a line that names it, then its run's lines
    (`mtviz.views.stream`), an error where it cannot run; at the end `done`. What no drafter can decode is said once."""
    prompt = request.get("prompt") if isinstance(request, dict) else None
    head = {"run": time.time_ns() // 1_000_000}
    text = ""
    for drafter in DRAFTERS:
        text += stream.line({**head, "drafter": drafter})
        view = None
        async with aclosing(hall.watch(prompt, Settings.from_mapping({**settings, "drafter": drafter}))) as views:
            async for view in views:
                yield text + view.text
        text += view.text if view else ""
        try:
            stream.read(view.text if view else "")
        except stream.Refused as refused:
            if refused.field != "drafter":
                break
    yield text + stream.line({**head, "done": True})


def heads_style() -> str:
    return (HEADS / "heads.css").read_text(encoding="utf-8")


def _config(service: Service, limits: Limits) -> dict[str, Any]:
    comparison = service.comparison()
    comparison["settings"]["max_new_tokens"] = min(comparison["settings"]["max_new_tokens"], limits.max_new_tokens)
    return {
        "strings": json.loads((HEADS / "strings.json").read_text(encoding="utf-8")),
        "drafters": list(DRAFTERS),
        "comparison": comparison,
        "max_prompt_characters": limits.max_prompt_characters,
        "schedule": {"bounds": {name: vars(bound) for name, bound in SCHEDULE.items()}, "steps": STEPS},
    }


def heads_script() -> str:
    """The modules in the order in which they use each other, as one script: `js_on_load` has no module loader."""
    joined = "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)
    return re.sub(r"^(?:import .*\n|export )", "", joined, flags=re.MULTILINE)
