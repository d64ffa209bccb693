"""Computing runs on this machine: in one thread of its own, or, on a ZeroGPU Space, in the process that gets a GPU."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from typing import AsyncGenerator, Iterator

from mtviz.hosting.limits import Limits
from mtviz.service import NoModel, Service, failure
from mtviz.settings import Settings, SettingsError
from mtviz.trace import Trace
from mtviz.views import stream

try:
    import spaces  # only where the host is a Space; `mtviz.hosting` is imported before torch, as ZeroGPU needs it
except ImportError:
    spaces = None

# One thread for all that uses the device: what PyTorch keeps for a thread is kept once.
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="device")
SECONDS_A_TOKEN = 0.05  # asked of ZeroGPU, whose queue prefers short jobs; generous for any GPU
log = logging.getLogger("mtviz")


def on_zero_gpu() -> bool:
    return spaces is not None and spaces.config.Config.zero_gpu


def run_lines(service: Service, limits: Limits, prompt: str, settings: Settings) -> Iterator[str]:
    """The lines of one run. What goes wrong is a line too, so that it crosses from one process to another."""
    try:
        with closing(service.decode(prompt, settings)) as traces:
            yield from stream.lines(_within(traces, limits.max_run_seconds))
    except (SettingsError, NoModel) as error:
        yield stream.problem(getattr(error, "field", None), str(error))
    except Exception as error:
        log.exception("a run failed before its first token")
        yield stream.problem(None, failure(error))


def _within(traces: Iterator[Trace], seconds: float) -> Iterator[Trace]:
    began = time.monotonic()
    for trace in traces:
        if trace["finish_reason"] is None and time.monotonic() - began > seconds:
            trace["finish_reason"] = "cancelled"
            trace["message"] = f"Stopped after {seconds} seconds, which is as long as a run may take here."
        yield trace
        if trace["finish_reason"] == "cancelled":
            return


async def pulled(updates: Iterator[str]) -> AsyncGenerator[str, None]:
    """What the generator `updates` gives, computed in the device's thread. Closing it early closes that."""
    here = copy_context()  # ZeroGPU finds the visitor's quota in it
    loop = asyncio.get_running_loop()
    try:
        while (text := await loop.run_in_executor(_THREAD, here.run, next, updates, None)) is not None:
            yield text
    finally:
        await loop.run_in_executor(_THREAD, here.run, updates.close)


class Device:
    """This machine's device as a `mtviz.hosting.hall.Source`."""

    def __init__(self, service: Service, limits: Limits):
        # Both packages tell a generator by its function, hence no bound method and no partial.
        def compute(prompt: str, settings: Settings) -> Iterator[str]:
            yield from run_lines(service, limits, prompt, settings)

        def duration(prompt: str, settings: Settings) -> float:
            return min(5 + SECONDS_A_TOKEN * settings.max_new_tokens, limits.max_run_seconds)

        self._compute = compute if spaces is None else spaces.GPU(duration=duration)(compute)

    def __call__(self, prompt: str, settings: Settings) -> AsyncGenerator[str, None]:
        return pulled(self._compute(prompt, settings))


def warm(service: Service) -> None:
    """Load the model: meanwhile the page is served already, except on ZeroGPU, which packs weights when the page starts."""
    if on_zero_gpu():
        service.load_quietly()
    else:
        service.load_in_background()
