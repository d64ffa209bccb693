"""The page. Gradio is imported here and in app.py only; everything the visitor sees is drawn from a Trace."""

from mtviz.ui.page import build_ui, launch, mounted

__all__ = ["build_ui", "launch", "mounted"]
