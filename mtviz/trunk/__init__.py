"""The trunk: the language model whose distribution counts."""

from .load import TrunkNotFound, load_trunk
from .model import Trunk, TrunkCache, TrunkError

__all__ = ["Trunk", "TrunkCache", "TrunkError", "TrunkNotFound", "load_trunk"]
