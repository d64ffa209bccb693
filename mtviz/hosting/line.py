"""The line before the one process that may run beside the app: a training, or a measurement that needs a process of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Callable, Iterator


class LineFull(RuntimeError):
    """`waiting` stand in the line already, and no more may."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} others are waiting, and the line is full. Try again later.")
        self.waiting = waiting


class Line:
    """First come, first served, one at a time. Belongs to one event loop.

    Args:
        max_waiting: how many may wait behind the first.
    """

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._places: list[object] = []

    def __len__(self) -> int:
        return len(self._places)

    @contextmanager
    def place(self) -> Iterator[Callable[[], int]]:
        """A place in the line for as long as the block runs: a function that says how many are ahead. Raises LineFull."""
        if (waiting := len(self._places) - 1) >= self._max_waiting:
            raise LineFull(waiting)
        own = object()
        self._places.append(own)
        try:
            yield lambda: self._places.index(own)
        finally:
            self._places.remove(own)
