"""The whole page: one file a tab, and the API endpoint that gives the same Trace."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, AsyncIterator

import gradio as gr
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from mtviz.hosting import Device, Guard, Hall, Limits, Line
from mtviz.service import Service
from mtviz.settings import Settings, SettingsError
from mtviz.ui import heads_page, measure_page, train_section, try_page, watch
from mtviz.ui.blocks import REFUSED, Page
from mtviz.views import stream
from mtviz.views.stage import stage_style

# System fonts only: the page must look the same in a lecture hall without a network.
_FONTS = ("system-ui", "PingFang SC", "Noto Sans SC", "Microsoft YaHei", "sans-serif")
_THEME = gr.themes.Base(font=_FONTS, font_mono=("ui-monospace", "Consolas", "monospace"))
# The names of the pages: one low line, in the page's own colours.
_TABS_STYLE = (
    "#pages{gap:0;margin-top:-8px}"
    "#pages>.tab-wrapper{height:30px;padding:0;margin:0}"
    "#pages .tab-container{height:30px}"
    "#pages .tab-container::after{display:none}"
    "#pages [role=tab]{height:30px;padding:0;margin-inline-end:20px;font-size:15px;color:color-mix(in srgb,var(--body-text-color) 70%,transparent)}"
    "#pages [role=tab].selected{font-weight:650;color:var(--body-text-color)}"
    "#pages [role=tab].selected::after{background:var(--body-text-color)}"
    "#pages>.tabitem{padding:8px 0 0}"
    # On a phone all four names fit, so that none hides in a menu. Gradio measures them on a hidden copy without roles.
    "@media(max-width:480px){#pages .tab-container button{height:30px;padding:0;font-size:12px;margin-inline-end:8px}}"
)

# An address that ends in the name of a section opens the page that has it.
_OPEN_PAGE = """() => {
  const open = (tries) => {
    const page = {"#race": "Measure"}[location.hash];
    if (!page) return;
    const tab = [...document.querySelectorAll("#pages [role=tab]")].find((tab) => tab.textContent.includes(page));
    if (tab) tab.click();
    else if (tries) setTimeout(open, 100, tries - 1); // not laid out yet
  };
  addEventListener("hashchange", () => open(0));
  open(100);
}"""


def build_ui(service: Service, limits: Limits = Limits(), hall: Hall | None = None) -> Page:
    """Without a `hall` of other devices, runs are computed on this machine."""
    hall = hall or Hall(Device(service, limits), limits, identity=service.identity)
    line = Line(hall.limits.max_waiting)
    with Page(service, hall) as page:
        with gr.Tabs(elem_id="pages"):
            with gr.Tab("Watch 观看"):
                watch.build(service, hall)
            with gr.Tab("Try 动手"):
                try_page.build()
            with gr.Tab("Heads 预测头"):
                heads_page.build(service, hall)
                train_section.build(service, hall.limits, line)
            with gr.Tab("Measure 测量"):
                measure_page.build(service, hall, line)
        gr.api(_decode_endpoint(hall), api_name="decode", concurrency_limit=None)
    return page


def launch(page: Page, **options: Any) -> Any:
    """Start the page; `options` go to Gradio's `launch`, whose result is returned."""
    page.set_queue()
    return page.launch(**_look(), app_kwargs={"middleware": _middleware(page), **REFUSED}, max_threads=page.hall.limits.max_visitors, **options)


def mounted(service: Service, limits: Limits, hall: Hall) -> FastAPI:
    """The page as an ASGI application, for a server of one's own."""
    page = build_ui(service, limits, hall)
    page.set_queue()
    app = FastAPI(middleware=_middleware(page), docs_url=None, redoc_url=None, openapi_url=None)
    return gr.mount_gradio_app(app, page, path="/", app_kwargs={**REFUSED}, **_look())


def _look() -> dict[str, Any]:
    style = stage_style() + try_page.try_style() + measure_page.measure_style() + heads_page.heads_style() + train_section.train_style() + watch.PAGE_STYLE + _TABS_STYLE
    unused = {"ssr_mode": False, "run_history": False, "enable_monitoring": False, "footer_links": [], "max_file_size": "1b"}
    return {"theme": _THEME, "css": style, "js": _OPEN_PAGE, "show_error": False, **unused}


def _middleware(page: Page) -> list[Middleware]:
    # Gradio compresses files only: the page itself, which holds all script, style and a recorded run, and recorded runs come plain.
    return [Middleware(Guard, limits=page.hall.limits, health=page.health), Middleware(GZipMiddleware, minimum_size=1000, compresslevel=4)]


def _decode_endpoint(hall: Hall):
    defaults = hall.limits.defaults()

    async def decode(
        prompt: str,
        num_draft_tokens: float = defaults.num_draft_tokens,
        rule: str = defaults.rule,
        threshold: float = defaults.threshold,
        temperature: float = defaults.temperature,
        seed: float = defaults.seed,
        max_new_tokens: float = defaults.max_new_tokens,
        epsilon: float = defaults.epsilon,
        delta: float = defaults.delta,
        top_k: float = defaults.top_k,
        top_p: float = defaults.top_p,
        model: str = defaults.model,
        drafter: str = defaults.drafter,
        raw: bool = defaults.raw,
    ) -> AsyncIterator[dict]:
        """Decode a prompt and return its Trace. Arguments and bounds as in `mtviz.settings`."""
        given = locals()
        async for trace in run_to_end(hall, prompt, {name: given[name] for name in defaults.to_dict()}):
            yield trace

    return decode


async def run_to_end(hall: Hall, prompt: Any, values: dict[str, Any]) -> AsyncIterator[dict[str, Any] | None]:
    """None while the run goes on, so that one is noticed who no longer waits for it; then its Trace. Raises gr.Error."""
    try:
        settings = Settings.from_mapping(values)
        async with aclosing(hall.watch(prompt, settings)) as views:
            async for view in views:
                yield stream.read(view.text) if view.done else None
    except (SettingsError, stream.Refused) as error:
        raise gr.Error(str(error), print_exception=False) from error
