"""What a trunk has read, for models that run through transformers: cut back by length, or restored and read again.

Attention keeps keys and values position by position, so that a rejected suffix is cut off. A recurrent layer (Mamba, the gated
delta rule of Qwen3-Next) folds all of the past into a state of fixed size, which nothing can be taken out of again.
"""

from __future__ import annotations

import copy
from typing import Callable, Sequence

from torch import Tensor
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import CacheLayerMixin, DynamicSlidingWindowLayer, LinearAttentionCacheLayerMixin

LONGEST_REPLAY = 32  # ids; more are read in a pass of their own, so that no pass grows with the text
Run = Callable[[Sequence[int], DynamicCache], Tensor]


class TrunkCache:
    """Keys and values of every position that the trunk has read."""

    def __init__(self, states: DynamicCache) -> None:
        self.states = states

    @property
    def length(self) -> int:
        """Positions held."""
        return int(self.states.get_seq_length())

    def read(self, ids: Sequence[int], run: Run) -> Tensor:
        """Hidden states (n, hidden_size) of `ids`, read by `run` after what is held."""
        return run(ids, self.states)

    def crop(self, length: int) -> None:
        """Forget every position from `length` on. Raises ValueError where fewer than `length` are held, and where a sliding
        window no longer holds what the next position would look at."""
        surplus = self.length - length
        if length < 0 or surplus < 0:
            raise ValueError(f"cannot crop a cache of {self.length} positions to {length}")
        if not surplus:
            return
        for layer in self.states.layers:
            if isinstance(layer, DynamicSlidingWindowLayer):
                window = layer.sliding_window - 1
                if layer.keys.shape[-2] - surplus < min(length, window):
                    raise ValueError(f"cannot crop to {length}: the sliding window has forgotten positions before it")
        self.states.crop(-surplus)  # transformers counts the tokens to remove, negatively


class ReplayCache:
    """The same for trunks with recurrent layers: they are kept as they were before the newest pass.

    `crop` puts them back and remembers the ids that are to stay. The next pass reads those again together with its own: no
    extra pass, but for one in `LONGEST_REPLAY` tokens or more.
    """

    def __init__(self, states: DynamicCache) -> None:
        self.states = states
        self._held = 0  # positions behind the saved states
        self._read: list[int] = []  # ids that the states hold beyond these
        self._again: list[int] = []  # ids that were read, and are to be read again
        self._save()

    @property
    def length(self) -> int:
        """Positions held, or to be read again."""
        return self._held + len(self._read) + len(self._again)

    def read(self, ids: Sequence[int], run: Run) -> Tensor:
        """See `TrunkCache.read`."""
        if len(self._again) > LONGEST_REPLAY:
            self._read, self._again = self._again, []
            run(self._read, self.states)
        if self._read:
            self._held += len(self._read)
            self._save()
        self._read, self._again = [*self._again, *ids], []
        return run(self._read, self.states)[-len(ids) :]

    def crop(self, length: int) -> None:
        """Forget every position from `length` on. Raises ValueError where fewer than `length` are held, or `length` is before
        the newest pass."""
        if not self._held <= length <= self.length:
            raise ValueError(f"cannot crop a recurrent cache of {self.length} positions to {length}: saved are {self._held}")
        if length == self.length:
            return
        if self._read:
            for layer, saved in zip(self.states.layers, self._saved):
                if saved is None:
                    layer.crop(-len(self._read))
                else:
                    layer.__dict__ = copy.deepcopy(saved)
        self._again = [*self._read, *self._again][: length - self._held]
        self._read = []

    def _save(self) -> None:
        self._saved = [
            copy.deepcopy(layer.__dict__) if isinstance(layer, LinearAttentionCacheLayerMixin) else None for layer in self.states.layers
        ]


def new_cache(config: PreTrainedConfig) -> TrunkCache | ReplayCache:
    """An empty cache for a model of this configuration. Raises ValueError, naming the layer, where it could not be rolled back."""
    states = DynamicCache(config=config)
    recurrent = False
    for layer in states.layers:
        if isinstance(layer, LinearAttentionCacheLayerMixin):
            if isinstance(layer, CacheLayerMixin):
                raise ValueError(f"its cache has layers that are both recurrent and attention ({type(layer).__name__})")
            recurrent = True
        elif not layer.is_croppable:
            raise ValueError(f"its cache has layers that cannot be cut back ({type(layer).__name__})")
        elif isinstance(layer, DynamicSlidingWindowLayer):
            layer.activate_past_recording()  # it could not be cropped otherwise
    return ReplayCache(states) if recurrent else TrunkCache(states)
