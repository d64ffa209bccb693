"""`MultiTokenDecoderSim`: the multi-token decoding tutorial's simulator, made right.

One round on tables of probabilities that the caller brings: propose, judge left to right by the ratio rule,
stop at the first rejection, roll the suffix back. There is no model here, and so nothing is emitted in place of
a rejected token; the engine (`mtviz.decoding`) always emits one more, because its trunk has already computed it.
Judged by the same `mtviz.rules.accept_ratio` as the engine.
"""

from __future__ import annotations

import operator
from typing import Any, Sequence

import numpy as np

from mtviz.rules import accept_ratio


class MultiTokenDecoderSim:
    """Propose, verify and roll back over given probability tables.

    Args:
        max_proposal_len: most tokens proposed in a round (`num_draft_tokens` in the engine), a positive int.
        min_accept_ratio: the least target/draft ratio that is accepted (`threshold` in the engine), in (0, 1].

    Raises:
        ValueError: a length that is not a positive whole number, or a ratio outside (0, 1].
    """

    def __init__(self, max_proposal_len: int = 4, min_accept_ratio: float = 0.5):
        if isinstance(max_proposal_len, bool) or not isinstance(max_proposal_len, (int, np.integer)) or max_proposal_len <= 0:
            raise ValueError("max_proposal_len must be a positive whole number")
        if not 0.0 < min_accept_ratio <= 1.0:
            raise ValueError("min_accept_ratio must be in (0, 1]")
        self.max_proposal_len = int(max_proposal_len)
        self.min_accept_ratio = float(min_accept_ratio)
        self.history: list[dict[str, Any]] = []

    def propose(self, draft_tokens: Sequence[int]) -> list[int]:
        """The first `max_proposal_len` of the draft tokens, as Python ints."""
        return [operator.index(token) for token in _to_list(draft_tokens)[: self.max_proposal_len]]

    def _accept_token(self, draft_prob: float, target_prob: float) -> bool:
        """True if target_prob >= min_accept_ratio * draft_prob; with draft_prob <= 0, if target_prob > 0."""
        return bool(accept_ratio(float(draft_prob), float(target_prob), self.min_accept_ratio))

    def verify(self, draft_probs: Any, target_probs: Any, draft_tokens: Sequence[int]) -> tuple[list[int], int | None]:
        """Judge the proposal left to right.

        Args:
            draft_probs, target_probs: tensors, arrays or nested lists of shape (positions, vocabulary), float32 as in
                the tutorial; rows need not sum to 1.
            draft_tokens: token ids, at least one row each in both tables.

        Returns:
            The accepted prefix, and the index of the first rejected token or None if all were accepted.

        Raises:
            ValueError: a table that is not two-dimensional, fewer rows than proposed tokens, or a token id outside
                the vocabulary; raised before anything is judged.
        """
        proposed = self.propose(draft_tokens)
        draft_table = _table("draft_probs", draft_probs, proposed)
        target_table = _table("target_probs", target_probs, proposed)
        accepted: list[int] = []
        for position, token in enumerate(proposed):
            if not self._accept_token(draft_table[position, token], target_table[position, token]):
                return accepted, position
            accepted.append(token)
        return accepted, None

    def decode(self, draft_probs: Any, target_probs: Any, draft_tokens: Sequence[int]) -> dict[str, Any]:
        """One whole round. Arguments and errors as in `verify`; the result is also appended to `history`."""
        proposed = self.propose(draft_tokens)
        accepted, rejected_at = self.verify(draft_probs, target_probs, proposed)
        result = {
            "proposed_tokens": proposed,
            "accepted_tokens": accepted,
            "accepted_len": len(accepted),
            "rejected_at": rejected_at,
            "rejected_suffix": [] if rejected_at is None else proposed[rejected_at:],
        }
        self.history.append(result)
        return result


def _to_list(tokens: Any) -> list:
    return tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)


def _table(name: str, probs: Any, proposed: list[int]) -> np.ndarray:
    """`probs` as a float32 array that holds every proposed token, or ValueError. Tensors on any device are read."""
    if hasattr(probs, "detach"):
        probs = probs.detach().to("cpu").float().numpy()
    try:
        table = np.asarray(probs, dtype=np.float32)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a table of numbers with rows of one length") from None
    if not proposed:
        return table
    if table.ndim != 2:
        raise ValueError(f"{name} must have two dimensions (positions, vocabulary); got {table.ndim}")
    if table.shape[0] < len(proposed):
        raise ValueError(f"{name} has {table.shape[0]} rows for {len(proposed)} proposed tokens")
    for token in proposed:
        if not 0 <= token < table.shape[1]:
            raise ValueError(f"token id {token} is outside the vocabulary of {name} (0 to {table.shape[1] - 1})")
    return table
