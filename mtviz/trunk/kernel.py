"""The lean pass through a kernel of our own, where there is a C compiler. `kernel.c` says what it does and why.

It is compiled once, in a few seconds, and kept in the user's cache directory.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import subprocess
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Callable, Iterable, NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from .lean import Joined, LeanCache, LeanLlama, Linear
from .places import cache_directory

SOURCE = Path(__file__).with_name("kernel.c")
FLAGS = ("-O3", "-mavx2", "-mfma", "-fopenmp", "-shared", "-fPIC")
LANES, BLOCK = 8, 16  # as in the source
_log = logging.getLogger(__name__)
_long, _pointer = ctypes.c_long, ctypes.c_void_p


class _Layer(ctypes.Structure):
    _fields_ = [(name, _pointer) for name in ("attention_norm", "mlp_norm", "qkv", "out", "gate_up", "down")]


class _Shape(ctypes.Structure):
    _fields_ = [*((name, _long) for name in ("width", "queries", "keys", "size", "inner")), ("epsilon", ctypes.c_float)]


class _Around(ctypes.Structure):
    _fields_ = [(name, _pointer) for name in ("norm", "embedding_norm", "hidden_norm", "join")]


class Layers(NamedTuple):
    """Decoder layers as the kernel takes them: their addresses, and the tensors that must live as long."""

    addresses: ctypes.Array
    tensors: list[Tensor]


@cache
def compiled_kernel() -> ctypes.CDLL | None:
    """The compiled kernel; None where it cannot be had: no compiler, a processor that it would not be fast on, no place to put it."""
    if platform.system() != "Linux" or torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        return None
    try:
        kernel = _loaded()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        _log.warning("no kernel for this processor, torch's own products instead: %s", getattr(error, "stderr", "") or error)
        return None
    kernel.product.argtypes = [_pointer, _long, _long, _pointer, _long, _pointer, ctypes.c_int]
    kernel.product.restype = None
    kernel.run.argtypes = [_pointer, _long, *[_pointer] * 4, _long, _pointer, _pointer, ctypes.c_int]
    return kernel


def _loaded() -> ctypes.CDLL:
    """The shared object, compiled unless it is there. Raises OSError, SubprocessError, or RuntimeError where there is no home."""
    command = [*shlex.split(os.environ.get("CC") or "cc"), *FLAGS, str(SOURCE), "-lm", "-o"]
    key = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    path = cache_directory() / f"kernel-{key}.so"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.exists():
        if path.stat().st_uid != os.getuid():
            raise OSError(f"{path} is somebody else's")
        try:
            return ctypes.CDLL(str(path))
        except OSError:  # cut short when the power failed, or for another C library: made anew
            pass
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:  # several processes may compile at once
        made = Path(scratch) / path.name
        subprocess.run([*command, str(made)], check=True, capture_output=True, text=True, timeout=120)
        made.replace(path)
    return ctypes.CDLL(str(path))


class CompiledLlama(LeanLlama):
    """`LeanLlama` for bfloat16 weights on a CPU, with float32 activations. The numbers of a position do not depend on the
    positions that share its pass."""

    def __init__(self, model: PreTrainedModel, vocab_size: int, kernel: ctypes.CDLL) -> None:
        self._kernel = kernel
        config = model.config
        self._shape = _Shape(
            config.hidden_size, config.num_attention_heads, config.num_key_value_heads, config.head_dim, config.intermediate_size,
            config.rms_norm_eps,
        )  # fmt: skip
        super().__init__(model, vocab_size)

    def _can_pack(self, model: PreTrainedModel) -> bool:
        return True

    def forward(self, ids: Sequence[int], cache: LeanCache) -> Tensor:
        return self._after(cache, self._layers, self.embed(ids), _Around(self._norm.data_ptr()))

    def run(self, layers: Layers, hidden: Tensor, cache: LeanCache) -> Tensor:
        return self._after(cache, layers, hidden, _Around())

    def run_joined(self, joined: Joined, embeds: Tensor, hidden: Tensor, cache: LeanCache) -> Tensor:
        norms = (norm.data_ptr() for norm in (joined.norm, joined.embedding_norm, joined.hidden_norm))
        packed = joined.join.args[0]
        return self._after(cache, joined.layers, hidden, _Around(*norms, packed.data_ptr()), embeds)

    def forward_each(self, ids: Sequence[int], caches: Sequence[LeanCache]) -> Tensor:
        """Read one id after what each of several caches holds: hidden states (n, hidden_size) after the final norm."""
        places = [cache.length for cache in caches]
        for cache in caches:
            cache.reserve(cache.length + 1)
        hidden = self._run(self._layers, self.embed(ids), caches, places, _Around(self._norm.data_ptr()))
        for cache in caches:
            cache.length += 1
        return hidden

    def _after(self, cache: LeanCache, layers: Layers, hidden: Tensor, around: _Around, embeds: Tensor | None = None) -> Tensor:
        """`hidden` (n, hidden_size) passed at the n positions after what `cache` holds."""
        n = len(hidden)
        cache.reserve(cache.length + n)
        hidden = self._run(layers, hidden, [cache] * n, range(cache.length, cache.length + n), around, embeds)
        cache.length += n
        return hidden

    def _run(
        self, layers: Layers, hidden: Tensor, caches: Sequence[LeanCache], places: Sequence[int], around: _Around,
        embeds: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        _check(hidden, self._shape.width)
        if any(len(layers.addresses) > len(cache.states) for cache in caches):
            raise ValueError(f"{len(layers.addresses)} layers need a cache for as many")
        if embeds is not None:
            _check(embeds, self._shape.width)
            if embeds.shape != hidden.shape:
                raise ValueError(f"{len(embeds)} embeddings cannot be joined with {len(hidden)} hidden states")
            embeds = embeds.contiguous()
        hidden = hidden.contiguous().clone()
        positions = torch.tensor([[cache.states.data_ptr(), cache.states.shape[2], place] for cache, place in zip(caches, places)])
        turns = self._turns(max(places, default=-1) + 1)[list(places)]
        failed = self._kernel.run(
            layers.addresses, len(layers.addresses), ctypes.byref(self._shape), ctypes.byref(around),
            None if embeds is None else embeds.data_ptr(), hidden.data_ptr(), len(hidden), positions.data_ptr(), turns.data_ptr(),
            torch.get_num_threads(),
        )  # fmt: skip
        if failed:
            raise MemoryError(f"no memory for a pass over {len(hidden)} positions")
        return hidden

    def fuse(self, layers: Iterable[nn.Module], each: Callable[..., Iterable[list[Tensor]]] = map) -> Layers:
        fused = list(each(self._tensors, layers))
        addresses = (_Layer * len(fused))(*(_Layer(*(tensor.data_ptr() for tensor in tensors)) for tensors in fused))
        return Layers(addresses, [tensor for tensors in fused for tensor in tensors])

    def _tensors(self, layer: nn.Module) -> list[Tensor]:
        mlp = layer.mlp
        gate_up = torch.cat([weight.view(-1, LANES, weight.shape[-1]) for weight in (mlp.gate_proj.weight, mlp.up_proj.weight)], dim=1)
        norms = [layer.input_layernorm.weight, layer.post_attention_layernorm.weight]
        weights = [self._qkv(layer.self_attn), layer.self_attn.o_proj.weight, gate_up.flatten(0, 1), mlp.down_proj.weight]
        return [norm.detach().to(torch.float32, copy=True) for norm in norms] + [pack(weight) for weight in weights]

    def linear(self, weight: Tensor) -> Linear:
        return partial(self._product, pack(weight), len(weight))

    def _product(self, packed: Tensor, rows: int, x: Tensor) -> Tensor:
        _check(x, packed.shape[1])
        x = x.contiguous()
        y = x.new_empty(*x.shape[:-1], rows)
        n = x.numel() // x.shape[-1]
        self._kernel.product(packed.data_ptr(), rows, x.shape[-1], x.data_ptr(), n, y.data_ptr(), torch.get_num_threads())
        return y


def _check(x: Tensor, width: int) -> None:
    """Raise ValueError unless C may read `x` (..., width): it would not notice."""
    if x.dtype != torch.float32 or x.shape[-1] != width or x.device.type != "cpu":
        raise ValueError(f"the kernel takes float32 of width {width} on the CPU, not {x.dtype} of {x.shape[-1]} on {x.device}")


def pack(weight: Tensor) -> Tensor:
    """A weight (rows, columns) as bfloat16 in the kernel's order (rows / 16, columns, 8, 2), padded with rows of zeros."""
    weight = functional.pad(weight.detach().to(torch.bfloat16), (0, 0, 0, -len(weight) % BLOCK))
    return weight.view(-1, 2, LANES, weight.shape[-1]).permute(0, 3, 2, 1).contiguous()


def lean_pass(model: PreTrainedModel, vocab_size: int) -> LeanLlama:
    """The fastest lean pass that this machine has for a model that `qualifies`."""
    config = model.config
    fits = all(size % LANES == 0 for size in (config.hidden_size, config.head_dim, config.intermediate_size))
    if model.device.type == "cpu" and model.dtype == torch.bfloat16 and fits and (kernel := compiled_kernel()) is not None:
        return CompiledLlama(model, vocab_size, kernel)
    return LeanLlama(model, vocab_size)
