"""Logs as JSON, one object a line, without a word of what visitors wrote.

The message of an exception may quote its input, so an exception is told by its type and by where it was raised.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import datetime, timezone
from typing import Any


class JsonLines(logging.Formatter):
    """Fields of an event are given as `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        event: dict[str, Any] = {"time": at, "level": record.levelname, "logger": record.name, "event": record.getMessage()}
        event |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, frames = record.exc_info
            event["exception"] = kind.__name__
            event["raised_at"] = [f"{frame.name} {frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(frames)[-8:]]
        return json.dumps(event, ensure_ascii=False, default=str)


def log_as_json() -> None:
    from uvicorn.config import LOGGING_CONFIG  # the web server has a handler of its own

    LOGGING_CONFIG["formatters"]["default"] = {"()": JsonLines}
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes addresses, which may hold anything
