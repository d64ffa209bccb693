"""Heads: small modules on the trunk's hidden state that guess the tokens after the next one."""

from .base import Heads, HeadsError
from .eagle import load_eagle
from .hierarchical import HierarchicalHeads
from .medusa import MedusaHeads, load_medusa
from .mtp import MtpHeads
from .native import NativeMtpHeads, native_heads
from .parallel import ParallelHeads
from .store import FAMILIES, load_heads, save_heads

__all__ = [
    "FAMILIES", "Heads", "HeadsError", "HierarchicalHeads", "MedusaHeads", "MtpHeads", "NativeMtpHeads", "ParallelHeads",
    "load_eagle", "load_heads", "load_medusa", "native_heads", "save_heads",
]  # fmt: skip
