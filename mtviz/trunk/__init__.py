"""The trunk: the language model whose distribution counts."""

from .cache import TrunkCache
from .load import TrunkNotFound, load_trunk
from .model import Trunk, TrunkError

__all__ = ["Trunk", "TrunkCache", "TrunkError", "TrunkNotFound", "load_trunk"]
