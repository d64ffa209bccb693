"""What this machine can do: how fast it reads memory, and how much of it a run took."""

from __future__ import annotations

import time
from pathlib import Path

import torch

_READ_BYTES = 256 * 2**20  # far beyond any processor's cache


def memory_bandwidth(device: str = "cpu", reads: int = 12) -> float:
    """Bytes a second at which `device` reads memory, with torch's current number of threads: the fastest of a few sums."""
    block = torch.ones(_READ_BYTES // 4, device=device)
    best = float("inf")
    for _ in range(reads):
        _synchronize(device)
        began = time.perf_counter()
        block.sum()
        _synchronize(device)
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


def _synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
