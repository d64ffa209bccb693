"""The page. Gradio is imported here and in app.py only; everything the visitor sees is drawn from a Trace."""

from mtviz.ui.quick_import import skip_stubs

skip_stubs()

from mtviz.ui.page import build_ui, launch, mounted  # noqa: E402

__all__ = ["build_ui", "launch", "mounted"]
