"""Heads: small modules on the trunk's hidden state that guess the tokens after the next one."""

from .base import Heads, HeadsError
from .mtp import MtpHeads
from .store import load_heads, save_heads

__all__ = ["Heads", "HeadsError", "MtpHeads", "load_heads", "save_heads"]
