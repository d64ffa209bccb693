"""Where things are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Where mtviz keeps what it can make again: $XDG_CACHE_HOME/mtviz, else ~/.cache/mtviz."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mtviz"
