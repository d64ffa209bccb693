"""Import Gradio without the work that it does for editors, which is more than half of the time that its import takes.

For each class of components Gradio parses its own source, renders an interface file (`.pyi`) beside it, and renders the
docstrings of its events. A page that is served needs none of it. Must be called before Gradio is imported, and does nothing after.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Sequence


class _WithoutStubs(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "gradio.component_meta" or (spec := PathFinder.find_spec(fullname, path)) is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            module.create_or_modify_pyi = lambda component_class, class_name, events: None
            module.EventListener.set_doc = lambda self, component: None

        spec.loader.exec_module = exec_module
        return spec


def skip_stubs() -> None:
    if "gradio" not in sys.modules and not any(isinstance(finder, _WithoutStubs) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WithoutStubs())
