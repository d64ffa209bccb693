"""The stage as text: `assets/stage` joined into one script and one style, for the app and for a file that stands alone.

The modules under `assets/stage` are plain ES modules, so that Node tests import them as they are. In a page they are
one script without imports: a component's `js_on_load` and a saved HTML file have no module loader to resolve them.
"""

from __future__ import annotations

import re
from pathlib import Path

STAGE = Path(__file__).resolve().parents[2] / "assets" / "stage"
_IMPORT = re.compile(r"^import .* from '\./(\w+)\.js';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=async |function |const |class )", re.MULTILINE)
# No literal spans lines, so that these may go by lines; one with a template in a template, a backslash or a `/` keeps
# its blanks.
_INDENT_OR_COMMENT = re.compile(r"^(?:[ \t]*//[^\n]*\n|[ \t]+)|(?<=[;{,)]) // [^\n]*$", re.MULTILINE)
_SIMPLE_LINE = re.compile(r"^(?!.*\$\{[^}\n]*`)[^/\n\\]+$", re.MULTILINE)
_LITERAL_OR_BLANKS = re.compile(r"""('[^']*'|"[^"]*"|`[^`]*`)| ?([=*<>!&|?:,;{}()\[\]]+) ?""")


def stage_script() -> str:
    """JavaScript that defines one name, `mountStage(root, host)`, and leaks no other."""
    body = "\n".join(_EXPORT.sub("", _IMPORT.sub("", (STAGE / f"{name}.js").read_text(encoding="utf-8"))) for name in _in_order())
    body = _SIMPLE_LINE.sub(lambda line: _LITERAL_OR_BLANKS.sub(r"\1\2", line[0]), _INDENT_OR_COMMENT.sub("", body))
    body = re.sub(r"(?<=[;{,(\[])\n+", "", body)
    return f"const mountStage = (() => {{\n'use strict';\n{body}\nreturn mountStage;\n}})();\n"


def stage_style() -> str:
    """CSS in which every rule is scoped under `.mtviz-stage`."""
    text = re.sub(r"/\*.*?\*/", "", "".join((STAGE / f"{name}.css").read_text(encoding="utf-8") for name in ("sentence", "stage")), flags=re.DOTALL)
    return re.sub(r"([{};,:]) ", r"\1", re.sub(r"\s+", " ", text)).replace(" {", "{").replace(" }", "}").replace(";}", "}")


def _in_order() -> list[str]:
    """Module names such that each comes after those it imports. A circular import would need hoisting, and is refused."""
    order: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"circular import in assets/stage: {' → '.join((*path, name))}")
        if name in order:
            return
        for imported in _IMPORT.findall((STAGE / f"{name}.js").read_text(encoding="utf-8")):
            visit(imported, (*path, name))
        order.append(name)

    visit("mount", ())
    return order
