"""The last steps of a trunk that runs through transformers: the final norm's numbers, and the unembedding with what follows it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedModel


class OutputHead:
    """Float32 logits of final hidden states: the unembedding's rows and bias, then a scale and a soft cap where a model has them.

    Known: the bias of Phi, `logit_scale` (Cohere), `logits_scaling` (Granite), `final_logit_softcapping` (Gemma 2).
    """

    def __init__(self, model: PreTrainedModel, vocab_size: int) -> None:
        config, layer = model.config.get_text_config(), model.get_output_embeddings()
        self._weight = layer.weight[:vocab_size].float()
        bias = getattr(layer, "bias", None)
        self._bias = None if bias is None else bias[:vocab_size].float()
        self._scale = (getattr(config, "logit_scale", None) or 1.0) / (getattr(config, "logits_scaling", None) or 1.0)
        self._cap: float | None = getattr(config, "final_logit_softcapping", None)

    def __call__(self, hidden: Tensor) -> Tensor:
        """Logits (..., vocab_size) of `hidden` (..., hidden_size) float32."""
        return self._shape(functional.linear(hidden, self._weight, self._bias))

    def finish(self, products: Tensor, ids: Tensor) -> Tensor:
        """Logits (..., k) from the products (..., k) with the rows of `ids` (k,) alone."""
        return self._shape(products if self._bias is None else products + self._bias[ids])

    def _shape(self, logits: Tensor) -> Tensor:
        logits = logits if self._scale == 1.0 else logits * self._scale
        return logits if self._cap is None else self._cap * torch.tanh(logits / self._cap)


@torch.inference_mode()
def final_norm(model: PreTrainedModel) -> tuple[Tensor, Tensor]:
    """Weight and bias (hidden_size,), float32, of the norm at the end of the decoder, measured on two vectors.

    RMSNorm or LayerNorm, weights stored as they are or as offsets from one: norm(x) = weight * x + bias for an x of zero mean and
    unit size. Identity where there is no such norm.
    """
    norms = [module for module in model.get_decoder().children() if "Norm" in type(module).__name__]
    width, device = model.config.get_text_config().hidden_size, model.device
    if not norms:
        return torch.ones(width, device=device), torch.zeros(width, device=device)
    signs = torch.ones(width, device=device)
    signs[1::2] = -1
    # So large a vector makes the norm's epsilon vanish, and a power of two leaves the weights as they are.
    plus, minus = (norms[-1]((factor * signs).to(model.dtype)[None])[0].float() for factor in (1024.0, -1024.0))
    return (plus - minus) / 2 * signs, (plus + minus) / 2
