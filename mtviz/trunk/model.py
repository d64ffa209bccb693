"""One causal language model behind a small surface: token ids in, logits and hidden states out, a cache that crops.

The unembedding is always multiplied in float32. In bfloat16 the logits near 20 would be 0.125 apart, so that exact ties,
and with them the choice of a token, would depend on how many positions share a forward pass.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from .cache import ReplayCache, TrunkCache, new_cache
from .kernel import lean_pass
from .lean import LeanCache, qualifies
from .output import OutputHead, final_norm
from .tokens import Tokens

UNBOUNDED = 32_768  # positions offered where the architecture sets no limit


class TrunkError(ValueError):
    """A model and a tokenizer that cannot serve as a trunk together."""


class Trunk:
    """A loaded causal language model with its tokenizer.

    Attributes: `model`, `tokenizer`, `name`, `device` and `dtype` ("bfloat16" or "float32") as they run, `fingerprint`
    (sha256 of the bfloat16 weights), `tokenizer_hash` (sha256 over the sorted (id, token) pairs), `vocab_size` (ids
    that the tokenizer has; wider unembeddings are sliced), `directory` (what it was loaded from, else None), `context`
    (most positions), `hidden_size`, `end_ids`, `final_norm` (weight and bias (hidden_size,), float32, of the norm that hidden
    states have been through), `lean` (the fast pass; None for an architecture that has none).

    Raises TrunkError for a model and a tokenizer that do not belong together, a cache that cannot be rolled back, an
    unembedding that does more than this class knows, and layers that forget between passes.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> None:
        config = model.config.get_text_config()
        self.tokens = Tokens(tokenizer)
        self.vocab_size = self.tokens.size
        rows = model.get_output_embeddings().weight.shape[0]
        if self.vocab_size > rows:
            raise TrunkError(f"the tokenizer of {name} has {self.vocab_size} ids, but its model knows only {rows}")
        self.end_ids = frozenset(_end_ids(model, tokenizer))
        # Vocabularies are padded by some hundred rows for the sake of speed, never doubled.
        if 2 * self.vocab_size < rows or any(id_ >= self.vocab_size for id_ in self.end_ids):
            raise TrunkError(
                f"the tokenizer of {name} is another model's: it has {self.vocab_size} ids, the model {rows}, "
                f"and ends at {sorted(self.end_ids)}"
            )
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.name = name
        directory = Path(model.config.name_or_path or "/")
        self.directory = directory if (directory / "config.json").is_file() else None
        self.device = str(model.device)
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.tokenizer_hash = self.tokens.hash
        self.fingerprint = fingerprint(model)
        self.context: int = getattr(config, "max_position_embeddings", None) or UNBOUNDED
        self.hidden_size: int = config.hidden_size
        self.encode, self.decode, self.token_bytes = self.tokens.encode, self.tokens.decode, self.tokens.bytes_of
        self.lean = lean_pass(model, self.vocab_size) if qualifies(model) else None
        missing = self.tokens.missing_ids()
        self._missing = torch.tensor(missing, device=model.device) if missing else None
        self.final_norm = final_norm(model)
        self._head = None
        if self.lean is None:
            self._head = OutputHead(model, self.vocab_size)
            try:
                self.new_cache()
            except ValueError as error:
                raise TrunkError(f"{name} cannot be decoded in rounds: {error}") from error
            self._check_passes()

    def new_cache(self) -> TrunkCache | ReplayCache | LeanCache:
        return new_cache(self.model.config) if self.lean is None else self.lean.new_cache()

    @torch.inference_mode()
    def forward(
        self, ids: Sequence[int], cache: TrunkCache | ReplayCache | LeanCache, last_only: bool = False
    ) -> tuple[Tensor, Tensor]:
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
            hidden = cache.read(ids, self._read)
        return self.unembed(hidden[-1:] if last_only else hidden), hidden.to(self.model.dtype)

    def _read(self, ids: Sequence[int], states: DynamicCache | None) -> Tensor:
        """transformers' own pass: final hidden states (n, hidden_size)."""
        inputs = torch.tensor([list(ids)], dtype=torch.long, device=self.model.device)
        return self.model.get_decoder()(input_ids=inputs, cache=states, use_cache=states is not None).last_hidden_state[0]

    @torch.inference_mode()
    def _check_passes(self) -> None:
        """Raise TrunkError unless a few tokens give the model's own logits, and the same states in two passes as in one."""
        ids = list(range(min(8, self.vocab_size)))
        whole = self._read(ids, None).float()
        inputs = torch.tensor([ids], device=self.model.device)
        own = self.model(input_ids=inputs, use_cache=False).logits[0, :, : self.vocab_size].float()
        cache = self.new_cache()
        pieces = torch.cat([cache.read(ids[:3], self._read), cache.read(ids[3:], self._read)]).float()
        # In bfloat16 an expert may be chosen otherwise in another pass, which is no fault.
        most_logits, most_states = (1e-3, 1e-3) if self.dtype == "float32" else (0.1, 0.3)
        kind = type(self.model).__name__
        if not (off := float((self._head(whole) - own).norm() / own.norm())) < most_logits:
            raise TrunkError(f"the logits of {self.name} are not its unembedding's ({off:.2g} of them apart): {kind} is not supported")
        if not (off := float((pieces - whole).norm() / whole.norm())) < most_states:
            raise TrunkError(
                f"{self.name} reads several tokens after others as if nothing were before them ({off:.2g} of their states apart), so that no "
                f"drafts can be checked in one pass: {kind} is not supported"
            )

    def unembed(self, hidden: Tensor) -> Tensor:
        """Float32 logits (n, vocab_size) of final hidden states (n, hidden_size); -inf at ids the tokenizer lacks."""
        hidden = hidden.float()
        logits = self.lean.unembed(hidden) if self.lean is not None else self._head(hidden)
        return self.mask_missing(logits)

    def mask_missing(self, logits: Tensor) -> Tensor:
        """Logits (..., vocab_size) with -inf at ids the tokenizer lacks."""
        return logits if self._missing is None else logits.index_fill(-1, self._missing, -torch.inf)

    def embed(self, ids: Tensor) -> Tensor:
        """Input embeddings, ids.shape + (hidden_size,), in the trunk's dtype."""
        return self.model.get_input_embeddings()(ids.to(self.model.device))

    def unembedding_rows(self, ids: Tensor) -> Tensor:
        """Rows of the unembedding for `ids` (k,): float32 (k, hidden_size)."""
        return self.model.get_output_embeddings().weight[ids.to(self.model.device)].float()

    def finish_logits(self, products: Tensor, ids: Tensor) -> Tensor:
        """Float32 logits (..., k) from the products (..., k) of hidden states with `unembedding_rows(ids)`."""
        return products if self._head is None else self._head.finish(products, ids)


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
