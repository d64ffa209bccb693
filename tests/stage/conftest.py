"""The stage on a page of its own, without the app."""

from __future__ import annotations

import json

import pytest
from made_up import GLOSSARY, STRINGS

from mtviz.settings import BOUNDS, CHOICES, MAX_PROMPT_CHARACTERS
from mtviz.trace import schema
from mtviz.views.stage import stage_script, stage_style


@pytest.fixture
def open_stage(browser, tmp_path):
    pages = []

    def open_(trace, width=1280, height=800, link="", presets=(), recorded=None, **options):
        page = browser.new_page(viewport={"width": width, "height": height}, **options)
        pages.append(page)
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
        config = {
            "bounds": {name: vars(bound) for name, bound in BOUNDS.items()}, "defaults": trace["settings"], "presets": list(presets),
            "schema": schema(), "choices": CHOICES, "max_prompt_characters": MAX_PROMPT_CHARACTERS,
            "status": {"live": False, "text": "none"}, "first": trace, "strings": STRINGS, "glossary": GLOSSARY, "language": "en", "recorded": recorded or {},
        }
        data = json.dumps(config).replace("</", "<\\/")
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(
            f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>body{{margin:8px}}{stage_style()}</style>'
            f'<div class="mtviz-stage"></div><script>{stage_script()}\nwindow.config = {data}; window.sent = [];'
            "window.stage = mountStage(document.querySelector('.mtviz-stage'), {config, canDecode: true, decode: (p) => sent.push(p), stop() {}, loadPreset: async (name) => structuredClone(config.recorded[name])});</script>",
            encoding="utf-8",
        )
        page.goto(path.as_uri() + link)
        return page

    yield open_
    for page in pages:
        assert page.problems == []
        page.close()
