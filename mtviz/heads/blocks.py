"""What the families without attention are built from."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from mtviz.trunk import Trunk


class FinalNorm(nn.Module):
    """To and from the trunk's final norm: hidden states have its weights in them, and dimensions twenty times the rest.

    Blocks work on unit vectors (root mean square 1) instead, where every dimension counts alike. The weights are the
    trunk's own and are not stored.
    """

    def __init__(self, trunk: Trunk) -> None:
        super().__init__()
        weight, bias = trunk.final_norm
        self.register_buffer("weight", weight.clone(), persistent=False)
        self.register_buffer("bias", bias.clone() if bias.any() else None, persistent=False)

    def undo(self, hidden: Tensor) -> Tensor:
        """Unit vectors (..., hidden_size), float32, of final hidden states of that shape."""
        hidden = hidden.float()
        return unit((hidden if self.bias is None else hidden - self.bias) / self.weight)

    def forward(self, unit_state: Tensor) -> Tensor:
        """Final hidden states (..., hidden_size), ready for the unembedding, of vectors of that shape."""
        hidden = unit(unit_state) * self.weight
        return hidden if self.bias is None else hidden + self.bias


class GatedBlock(nn.Module):
    """SwiGLU (Shazeer 2020) from `width` to `out` dimensions. It starts at zero, so that a residual around it is the identity."""

    def __init__(self, width: int, inner: int, out: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, out, bias=False)
        for layer in (self.gate, self.up):
            nn.init.normal_(layer.weight, std=width**-0.5)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


def unit(x: Tensor) -> Tensor:
    """`x` scaled to a root mean square of 1 over the last dimension."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def delayed(x: Tensor, slots: int) -> Tensor:
    """`x` (batch, n, width) moved `slots` later along n; zeros come in, as much falls off the end."""
    return functional.pad(x, (0, 0, slots, 0))[:, : x.shape[1]]
