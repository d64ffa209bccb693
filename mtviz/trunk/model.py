"""One causal language model behind a small surface: token ids in, logits and hidden states out, a cache that crops.

The unembedding is always multiplied in float32. In bfloat16 the logits near 20 would be 0.125 apart, so that exact ties,
and with them the choice of a token, would depend on how many positions share a forward pass.
"""

from __future__ import annotations

import hashlib
from typing import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from .lean import LeanCache, LeanLlama, qualifies
from .tokens import Tokens


class TrunkError(ValueError):
    """A model and a tokenizer that cannot serve as a trunk together."""


class TrunkCache:
    """Keys and values of every position that the trunk has read."""

    def __init__(self, cache: DynamicCache) -> None:
        self.states = cache

    @property
    def length(self) -> int:
        """Positions held."""
        return int(self.states.get_seq_length())

    def crop(self, length: int) -> None:
        """Forget every position from `length` on. Raises ValueError where fewer than `length` are held."""
        surplus = self.length - length
        if length < 0 or surplus < 0:
            raise ValueError(f"cannot crop a cache of {self.length} positions to {length}")
        if surplus:
            self.states.crop(-surplus)  # transformers counts the tokens to remove, negatively


class Trunk:
    """A loaded causal language model with its tokenizer.

    Attributes: `model`, `tokenizer`, `name`, `device` and `dtype` ("bfloat16" or "float32") as they run, `fingerprint`
    (sha256 of the bfloat16 weights), `tokenizer_hash` (sha256 over the sorted (id, token) pairs), `vocab_size` (ids
    that the tokenizer has; wider unembeddings are sliced), `context` (most positions), `hidden_size`, `end_ids`,
    `lean` (the fast pass; None for an architecture that has none).
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        config = model.config.get_text_config()
        self.tokens = Tokens(tokenizer)
        self.vocab_size = self.tokens.size
        rows = model.get_output_embeddings().weight.shape[0]
        if self.vocab_size > rows:
            raise TrunkError(f"the tokenizer of {name} has {self.vocab_size} ids, but its model knows only {rows}")
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.name = name
        self.device = str(model.device)
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.tokenizer_hash = self.tokens.hash
        self.fingerprint = fingerprint(model)
        self.context: int = config.max_position_embeddings
        self.hidden_size: int = config.hidden_size
        self.end_ids = frozenset(_end_ids(model, tokenizer))
        self.encode, self.decode, self.token_bytes = self.tokens.encode, self.tokens.decode, self.tokens.bytes_of
        self.lean = LeanLlama(model, self.vocab_size) if qualifies(model) else None
        self._unembedding = None if self.lean else model.get_output_embeddings().weight[: self.vocab_size].float()
        missing = self.tokens.missing_ids()
        self._missing = torch.tensor(missing, device=model.device) if missing else None

    def new_cache(self) -> TrunkCache | LeanCache:
        if self.lean is not None:
            return self.lean.new_cache()
        cache = DynamicCache(config=self.model.config)
        if any(layer.is_sliding for layer in cache.layers):
            cache.activate_past_recording()  # a sliding window could not be cropped otherwise
        return TrunkCache(cache)

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], cache: TrunkCache | LeanCache, last_only: bool = False) -> tuple[Tensor, Tensor]:
        """Read `ids` after what `cache` holds.

        Returns float32 logits (n, vocab_size), or (1, vocab_size) of the last position with `last_only`, and the hidden
        states (n, hidden_size) after the final norm in the trunk's dtype. Raises ValueError past the context.
        """
        if not len(ids):
            raise ValueError("a forward pass needs at least one token")
        if cache.length + len(ids) > self.context:
            raise ValueError(f"{cache.length + len(ids)} tokens exceed the context of {self.context}")
        if self.lean is not None:
            hidden = self.lean.forward(ids, cache)
        else:
            inputs = torch.tensor([list(ids)], dtype=torch.long, device=self.model.device)
            hidden = self.model.model(input_ids=inputs, cache=cache.states, use_cache=True).last_hidden_state[0]
        return self.unembed(hidden[-1:] if last_only else hidden), hidden.to(self.model.dtype)

    def unembed(self, hidden: Tensor) -> Tensor:
        """Float32 logits (n, vocab_size) of final hidden states (n, hidden_size); -inf at ids the tokenizer lacks."""
        hidden = hidden.float()
        logits = self.lean.unembed(hidden) if self.lean is not None else torch.nn.functional.linear(hidden, self._unembedding)
        return logits if self._missing is None else logits.index_fill(-1, self._missing, -torch.inf)

    def embed(self, ids: Tensor) -> Tensor:
        """Input embeddings, ids.shape + (hidden_size,), in the trunk's dtype."""
        return self.model.get_input_embeddings()(ids.to(self.model.device))

    def unembedding_rows(self, ids: Tensor) -> Tensor:
        """Rows of the unembedding for `ids` (k,): float32 (k, hidden_size)."""
        return self.model.get_output_embeddings().weight[ids.to(self.model.device)].float()


def fingerprint(model: PreTrainedModel) -> str:
    """sha256 (hex) of a model's weights as bfloat16, by sorted name; device and running dtype do not change it."""
    digest = hashlib.sha256()
    for name, weight in sorted(model.named_parameters()):
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().to("cpu", torch.bfloat16).contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()


def _end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The ids at which transformers' generate() stops: the generation config's, else the tokenizer's."""
    generation = getattr(model, "generation_config", None)
    ids = generation.eos_token_id if generation is not None else None
    if ids is None:
        ids = tokenizer.eos_token_id
    return [] if ids is None else [ids] if isinstance(ids, int) else list(ids)
