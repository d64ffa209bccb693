"""Many visitors, few devices: one line of runs and measurements, and equal requests computed once.

A run is computed while somebody watches it. The last who leaves takes it out of the line, or off the device at the end
of the round that is being computed. Whoever comes later sees a run from its start, and a finished one at once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import OrderedDict
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, AsyncGenerator, Callable, Hashable, Iterator

from mtviz.hosting.device import pulled
from mtviz.hosting.limits import Limits
from mtviz.settings import Settings, SettingsError
from mtviz.views import stream

# How often a watcher is called although nothing has changed: a server learns that a visitor has left only when it next
# has something to send to them.
BEAT = 1.0  # seconds
# Sending to one watcher takes the web server a few milliseconds. Updates are this much further apart for every watcher, or two
# hundred of them would take the cores from the run that they watch.
PACE = 0.01  # seconds a watcher
log = logging.getLogger("mtviz.hall")

Source = Callable[[str, Settings], AsyncGenerator[str, None]]
"""Gives the lines of a run (`mtviz.views.stream`) as they are computed, one update at a time."""


@dataclass(frozen=True)
class View:
    """What a watcher sees now."""

    text: str
    """All lines so far; "" while the run stands in line."""
    ahead: int = 0
    """Runs before this one in the line."""
    kept: bool = False
    """It had been computed before this watcher came."""
    done: bool = False


class _Run:
    def __init__(self) -> None:
        self.text = ""
        self.done = False
        self.watchers = 0
        self.most_watchers = 0
        self.changed = asyncio.Event()
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def say(self, text: str, done: bool = False) -> None:
        self.text += text
        self.done = done
        self.changed.set()
        self.changed = asyncio.Event()
        if done:
            self.ended.set()


async def _happens(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, at most so long."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        pass



class Hall:
    """The line before `devices` devices, and the runs that were finished. Belongs to one event loop.

    Args:
        source: computes a run.
        identity: what would compute a run with these settings (fingerprints of weights); part of what makes requests equal.
    """

    def __init__(self, source: Source, limits: Limits = Limits(), devices: int = 1, identity: Callable[[Settings], Hashable] = lambda _: None):
        self._source, self._identity, self.limits = source, identity, limits
        self._devices, self._free = devices, asyncio.Semaphore(devices)
        self._runs: dict[Hashable, _Run] = {}
        self._line: list[_Run] = []
        self._kept: OrderedDict[Hashable, str] = OrderedDict()

    def counts(self) -> dict[str, int]:
        """Numbers for a probe."""
        running = len(self._runs) - len(self._line)
        return {"waiting": len(self._line), "running": running, "watching": self.watching(), "kept": len(self._kept)}

    def watching(self) -> int:
        return sum(run.watchers for run in self._runs.values())

    async def watch(self, prompt: Any, settings: Settings) -> AsyncGenerator[View, None]:
        """Yield views until the run is done: at every change, and at least every `BEAT` seconds.

        Nothing is raised: what goes wrong is a line in the text (`mtviz.views.stream.problem`).
        """
        try:
            self.limits.check(prompt, settings)
        except SettingsError as error:
            yield View(stream.problem(error.field, str(error)), done=True)
            return
        key = self._key(prompt, settings)
        if key in self._kept:
            self._kept.move_to_end(key)
            yield View(self._kept[key], kept=True, done=True)
            return

        def keep(text: str) -> None:
            if stream.is_whole(text):
                self._keep(self._key(prompt, settings), text)  # the weights may have been loaded since it was asked for

        async with aclosing(self._in_turn(key, lambda: self._source(prompt, settings), keep)) as views:
            async for view in views:
                yield view

    async def alone(self, lines: Iterator[str]) -> AsyncGenerator[View, None]:
        """A measurement, as `watch`: it stands in the same line, is shared with nobody and not kept.

        Args:
            lines: a generator of lines (`mtviz.views.stream.line`), computed in the device's thread while nothing else is on it.
        """
        async with aclosing(self._in_turn(object(), lambda: pulled(lines))) as views:
            async for view in views:
                yield view

    async def _in_turn(self, key: Hashable, source: Callable[[], AsyncGenerator[str, None]], keep: Callable[[str], None] = lambda _: None) -> AsyncGenerator[View, None]:
        run = self._runs.get(key)
        if run is None:
            waiting = len(self._runs) - self._devices
            if waiting >= self.limits.max_waiting:
                log.info("full", extra={"fields": {"waiting": waiting}})
                message = f"{waiting} runs are waiting, and the line is full. Try again in a minute; the examples play without waiting."
                yield View(stream.problem(None, message, code="full", waiting=waiting), done=True)
                return
            run = self._runs[key] = _Run()
            self._line.append(run)
            run.task = asyncio.create_task(self._compute(run, key, source, keep))
        run.watchers += 1
        run.most_watchers = max(run.most_watchers, run.watchers)
        try:
            while True:
                changed, done = run.changed, run.done
                yield View(run.text, ahead=self._line.index(run) if run in self._line else 0, done=done)
                if done:
                    return
                await _happens(run.ended, PACE * self.watching())
                await _happens(changed, BEAT)
        finally:
            run.watchers -= 1
            if not run.watchers and run in self._line and run.task is not None:
                self._line.remove(run)
                del self._runs[key]
                run.task.cancel()

    def _key(self, prompt: str, settings: Settings) -> Hashable:
        return self._identity(settings), prompt, settings

    async def _compute(self, run: _Run, key: Hashable, source: Callable[[], AsyncGenerator[str, None]], keep: Callable[[str], None]) -> None:
        asked = time.monotonic()
        async with self._free:
            self._line.remove(run)
            began = time.monotonic()
            finish = "left"
            try:
                async with aclosing(source()) as updates:
                    async for text in updates:
                        run.say(text)
                        if not run.watchers:
                            break
                    else:
                        finish = "done"
            except Exception as error:
                finish = "failed"
                log.exception("a run failed")
                run.say(stream.problem(None, f"The run failed: {type(error).__name__}. The next one is not affected."))
            finally:
                del self._runs[key]
                run.say("", done=True)
                fields = {"finish": finish, "waited": round(began - asked, 3), "seconds": round(time.monotonic() - began, 3)}
                log.info("run", extra={"fields": {**fields, "watchers": run.most_watchers, "characters": len(run.text)}})
        keep(run.text)

    def _keep(self, key: Hashable, text: str) -> None:
        self._kept[key] = text
        while sum(map(sys.getsizeof, self._kept.values())) > self.limits.kept_megabytes * 2**20:
            self._kept.popitem(last=False)
