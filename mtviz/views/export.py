"""Traces as one HTML file that plays them anywhere: no server, no network, the same stage as in the app."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Sequence

from mtviz.trace import MAX_TRACE_BYTES, Trace, TraceError, loads, schema
from mtviz.views.stage import STAGE, stage_script, stage_style

# The traces are data, in an element that no browser runs; the script and the style are the only code, and the policy
# names them by their hashes. `blob:` lets a saved picture or run reach the disk.
_PAGE = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{script_hash}'; style-src '{style_hash}'; img-src blob:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mtviz — multi-token decoding, round by round</title>
<style>{style}</style>
</head>
<body>
<div class="mtviz-stage"></div>
<script type="application/json" id="mtviz">{data}</script>
<script>{script}</script>
</body>
</html>
"""
_PAGE_STYLE = "body{margin:0 auto;max-width:1280px;padding:12px clamp(8px,4vw,48px);background:#fff}.dark body{background:#0b0f14}"
_BOOT = """const { config, traces } = JSON.parse(document.getElementById('mtviz').textContent);
const night = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark', night.matches);
night.addEventListener('change', follow);
follow();
config.first = traces[0];
mountStage(document.querySelector('.mtviz-stage'), { config, canDecode: false, loadPreset: async (name) => traces[name] });
"""


def export_html(traces: list[Trace], language: str | None = None) -> str:
    """One HTML file that plays `traces`, the first at once; `language` is "en" or "zh", by default the reader's own.

    Traces must have passed `mtviz.trace.validate`. Raises ValueError without any.
    """
    if not traces:
        raise ValueError("nothing to export: no trace was given")
    script, style = stage_script() + _BOOT, _PAGE_STYLE + stage_style()
    data = json.dumps({"config": _config(traces, language), "traces": traces}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _PAGE.format(
        language=language or "en", script=script, script_hash=_hash(script), style=style, style_hash=_hash(style),
        data=data.replace("<", "\\u003c"),  # neither `</script>` nor `<!--` in a text ends or hides what follows
    )


def _config(traces: list[Trace], language: str | None) -> dict[str, Any]:
    bounds, choices = _bounds_and_choices()
    return {
        "bounds": bounds,
        "choices": {**choices, "drafter": sorted({trace["settings"]["drafter"] for trace in traces})},
        "defaults": traces[0]["settings"],
        "glossary": json.loads((STAGE.parent / "glossary.json").read_text(encoding="utf-8")),
        "language": language,
        "schema": schema(),
        "presets": [_entry(i, trace) for i, trace in enumerate(traces)] if len(traces) > 1 else [],
        "status": {"live": False, "text": _origin(traces)},
        "strings": {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (STAGE.parent / "i18n").glob("*.json")},
    }


def _entry(index: int, trace: Trace) -> dict[str, Any]:
    settings = trace["settings"]
    prompt = " ".join(trace["prompt"]["text"].split())
    title = prompt if len(prompt) <= 60 else prompt[:59] + "…"
    return {"name": index, "title": title, "teaches": f"{settings['drafter']} · {settings['rule']} · {settings['num_draft_tokens']}"}


def _origin(traces: list[Trace]) -> str:
    models = dict.fromkeys(f"{trace['model']['trunk']} · {trace['model']['dtype']} · {trace['model']['device']}" for trace in traces)
    return ", ".join(models)[:400]


def _bounds_and_choices() -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Those of the settings, read from the Trace's published schema: a file that stands alone needs no more."""
    bounds: dict[str, Any] = {}
    choices: dict[str, list[str]] = {}
    for name, rule in schema()["$defs"]["settings"]["properties"].items():
        if "enum" in rule:
            choices[name] = rule["enum"]
        elif "maximum" in rule:
            integer = rule["type"] == "integer"
            bounds[name] = {
                "low": rule.get("minimum", rule.get("exclusiveMinimum")), "high": rule["maximum"], "step": 1 if integer else 0.05,
                "integer": integer, "low_open": "exclusiveMinimum" in rule,
            }
    return bounds, choices


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mtviz export", description=sys.modules[__name__].__doc__)
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE", help="a trace as JSON, from `decode --json` or saved from the page")
    parser.add_argument("--html", type=Path, metavar="FILE", required=True, help="the file to write")
    parser.add_argument("--language", choices=("en", "zh"), help="language of the page (default: the reader's own)")
    arguments = parser.parse_args(argv)
    traces = []
    for path in arguments.traces:
        try:
            traces.append(_read(path))
        except (OSError, UnicodeDecodeError, TraceError) as error:
            print(f"error: {path}: {error}", file=sys.stderr)
            return 2
    try:
        # Line ends are written as they are: another would change the hashes.
        arguments.html.write_text(export_html(traces, arguments.language), encoding="utf-8", newline="\n")
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _read(path: Path) -> Trace:
    if path.stat().st_size > MAX_TRACE_BYTES:
        raise TraceError(f"larger than {MAX_TRACE_BYTES} bytes")
    return loads(path.read_text(encoding="utf-8"))
