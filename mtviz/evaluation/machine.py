"""What this machine is and can do: how fast it reads memory, and how much of it a run took."""

from __future__ import annotations

import datetime
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import mtviz

if TYPE_CHECKING:
    from mtviz.trunk import Trunk

_READ_BYTES = 256 * 2**20  # far beyond any processor's cache


def memory_bandwidth(device: str = "cpu", reads: int = 12) -> float:
    """Bytes a second at which `device` reads memory, with torch's current number of threads: the fastest of a few sums."""
    block = torch.ones(_READ_BYTES // 4, device=device)
    best = float("inf")
    for _ in range(reads):
        synchronize(device)
        began = time.perf_counter()
        block.sum()
        synchronize(device)
        best = min(best, time.perf_counter() - began)
    return _READ_BYTES / best


class PeakMemory:
    """Peak memory in bytes since `restart`: the device's on CUDA, else this process's resident set (Linux; else None)."""

    def __init__(self, device: str) -> None:
        self.device = device

    def restart(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
            return
        try:
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, see proc(5)
        except OSError:
            pass

    def read(self) -> int | None:
        if self.device.startswith("cuda"):
            return torch.cuda.max_memory_allocated()
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), None)


def provenance(trunk: Trunk, command: str) -> dict[str, Any]:
    """What a result is of: the command that makes it again, the weights, the machine, and how busy that was."""
    return {
        "command": command,
        "model": trunk.name,
        "revision": trunk.fingerprint,
        "dtype": trunk.dtype,
        "device": trunk.device,
        "machine": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,  # processes that wanted a core in the last minute
        "date": datetime.date.today().isoformat(),
        "version": f"mtviz {mtviz.__version__}, torch {torch.__version__}",
    }


def processor() -> str:
    """The processor's name as it gives it, or at least its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
