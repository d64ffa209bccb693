"""Heads: small modules on the trunk's hidden state that guess the tokens after the next one."""

from .base import Heads, HeadsError
from .hierarchical import HierarchicalHeads
from .mtp import MtpHeads
from .parallel import ParallelHeads
from .store import FAMILIES, load_heads, save_heads

__all__ = ["FAMILIES", "Heads", "HeadsError", "HierarchicalHeads", "MtpHeads", "ParallelHeads", "load_heads", "save_heads"]
