"""Made-up Traces for the stage, and the words that it speaks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import programs

from mtviz.views.stage import STAGE

HERE = Path(__file__).resolve().parent
STRINGS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (STAGE.parent / "i18n").glob("*.json")}
GLOSSARY = json.loads((STAGE.parent / "glossary.json").read_text(encoding="utf-8"))


def made(options: str) -> dict:
    """A made-up Trace; `options` is the JavaScript object given to `makeTrace`."""
    code = f"import {{ makeTrace, RAIN_TOKENS }} from {json.dumps((HERE / 'traces.js').as_uri())}; console.log(JSON.stringify(makeTrace({options})));"
    return json.loads(subprocess.run([programs.node(), "--input-type=module", "-e", code], capture_output=True, text=True, check=True).stdout)
