"""The whole page: one file a tab, and the API endpoint that gives the same Trace."""

from __future__ import annotations

from typing import Any

import gradio as gr

from mtviz.service import NoModel, Service
from mtviz.settings import Settings, SettingsError
from mtviz.trace import Trace
from mtviz.ui import try_page, watch
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
)
QUEUE_SIZE = 64


def build_ui(service: Service) -> gr.Blocks:
    with gr.Blocks(title="mtviz — multi-token decoding, round by round", analytics_enabled=False) as page:
        with gr.Tabs(elem_id="pages"):
            with gr.Tab("Watch 观看"):
                watch.build(service)
            with gr.Tab("Try 动手"):
                try_page.build()
        gr.api(_decode_endpoint(service), api_name="decode", concurrency_id=watch.DEVICE, concurrency_limit=1)
    return page


def launch(page: gr.Blocks, **options: Any) -> Any:
    """Start the page; `options` go to Gradio's `launch`, whose result is returned."""
    page.queue(max_size=QUEUE_SIZE, status_update_rate=1)
    style = stage_style() + try_page.try_style() + watch.PAGE_STYLE + _TABS_STYLE
    return page.launch(
        theme=_THEME, css=style, ssr_mode=False, run_history=False, enable_monitoring=False, footer_links=[], **options,
    )


def _decode_endpoint(service: Service):
    defaults = Settings()

    def decode(
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
    ) -> dict:
        """Decode a prompt and return its Trace. Arguments and bounds as in `mtviz.settings`."""
        given = locals()
        return run_to_end(service, prompt, {name: given[name] for name in defaults.to_dict()})

    return decode


def run_to_end(service: Service, prompt: Any, values: dict[str, Any]) -> Trace:
    try:
        *_, trace = service.decode(prompt, Settings.from_mapping(values))
    except (SettingsError, NoModel) as error:
        raise gr.Error(str(error), print_exception=False) from error
    return trace
