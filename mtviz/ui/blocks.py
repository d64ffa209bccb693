"""Gradio's Blocks before a crowd: one state for all, and nothing printed of what visitors sent."""

from __future__ import annotations

import logging
import os
import sys
from importlib.util import find_spec
from typing import Any

import gradio as gr
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from gradio.state_holder import SessionState, StateHolder

import mtviz
from mtviz.hosting import Hall
from mtviz.service import Service

log = logging.getLogger("mtviz")


class _OneState(StateHolder):
    """The page keeps nothing of a visitor, so that all have one state. Gradio makes one for each: it describes every component anew,
    which took half of the time in which two hundred visitors were served, and keeps the last text of each."""

    def __getitem__(self, session_id: str) -> SessionState:
        if not self.session_data:
            self.session_data[""] = SessionState(self.blocks)
        return self.session_data[""]


class Page(gr.Blocks):
    """The page, and the hall that its runs wait in."""

    def __init__(self, service: Service, hall: Hall):
        super().__init__(title="mtviz — multi-token decoding, round by round", analytics_enabled=False)
        self.service, self.hall = service, hall

    def set_queue(self) -> None:
        """Runs wait in the hall, which knows equal ones and how many are ahead; Gradio's queue only hands visitors through."""
        self.max_threads = self.hall.limits.max_visitors
        os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")  # else a table of all events is made after each
        if find_spec("matplotlib") is None:
            sys.modules["matplotlib"] = None  # Gradio imports it twice at every update, and each time looks all over the disk for it
        self.queue(max_size=self.max_threads, status_update_rate=1, api_open=False, default_concurrency_limit=None)

    def health(self) -> dict[str, Any]:
        return {**self.service.status(), **self.hall.counts(), "version": mtviz.__version__}

    @property
    def state_holder(self) -> StateHolder:
        return self._states

    @state_holder.setter
    def state_holder(self, states: StateHolder) -> None:
        """Called by the app that serves the page, which makes the holder and has no way to be given another."""
        states.__class__ = _OneState
        self._states = states

    def validate_inputs(self, block_fn: Any, inputs: list[Any]) -> None:
        """As Gradio's, but what was sent is not written into the log."""
        if len(inputs) != len(block_fn.inputs):
            raise gr.Error(f"{len(block_fn.inputs)} values are needed; {len(inputs)} were sent", print_exception=False)

    async def process_api(self, *given: Any, **named: Any) -> dict[str, Any]:
        """As Gradio's, which prints what an event raises; its message may quote the visitor."""
        try:
            return await super().process_api(*given, **named)
        except gr.Error as error:
            error.print_exception = False
            raise
        except Exception as error:
            log.exception("an event failed")
            raise gr.Error("The request was not understood.", print_exception=False) from error


async def _not_understood(request: Request, error: RequestValidationError) -> JSONResponse:
    """FastAPI's own answer repeats what was sent, and breaks where that is no number."""
    return JSONResponse({"detail": "The request was not understood"}, 422)


REFUSED: dict[str, Any] = {"exception_handlers": {RequestValidationError: _not_understood}}
"""Keyword arguments of the FastAPI app that serves the page."""
