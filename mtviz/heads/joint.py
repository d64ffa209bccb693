"""A trunk and its heads trained together from the first step: the three models of the multi-token prediction tutorial.

One forward pass gives predictions (batch, heads, seq, vocab); predictions[:, i, t] is for the token at t + 1 + i. Index 0 is
the trunk's own next-token head, so n heads give n - 1 drafts. All share the trunk's unembedding, and each block starts as
the identity on the trunk's hidden state.

Gloeckle et al. 2024 (arXiv:2404.19737) for independent heads, Ankner et al. 2024 (arXiv:2402.05109) for dependent ones.
"""

from __future__ import annotations

from typing import ClassVar, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaForCausalLM

from mtviz.trunk import Trunk

from .base import Heads, HeadsError
from .blocks import GatedBlock, delayed, unit
from .hierarchical import HierarchicalState
from .length import MEASURES, LengthPredictor, measures

MOST_HEADS = 8


class MultiTokenPrediction(nn.Module):
    """Independent heads: each reads the trunk's final hidden state and knows nothing of the other heads' tokens.

    `model` is a Llama-type causal language model, `heads` the predictions a position, the trunk's own included. Raises
    HeadsError unless `heads` is a whole number from 1 to 8.
    """

    family: ClassVar[str] = "parallel"

    def __init__(self, model: LlamaForCausalLM, heads: int = 4) -> None:
        super().__init__()
        if isinstance(heads, bool) or not isinstance(heads, int) or not 1 <= heads <= MOST_HEADS:
            raise HeadsError(f"heads must be a whole number from 1 to {MOST_HEADS}; got {heads!r:.40}")
        self.model = model
        self.heads = heads
        self.blocks = nn.ModuleList(self.block(model.config.hidden_size) for _ in range(heads - 1))

    @staticmethod
    def block(width: int) -> nn.Module:
        return GatedBlock(width, width, width)

    def advance(self, i: int, hidden: Tensor, before: Tensor, embeds: Tensor | None) -> Tensor:
        """State (..., width) of draft i, counted from 0, from the trunk's `hidden`, the state of the draft before it (of the
        trunk for the first) and the embedding of the token that was chosen there, all (..., width)."""
        return unit(hidden + self.blocks[i](hidden))

    def states(self, ids: Tensor, heads: int | None = None) -> Iterator[Tensor]:
        """Of ids (batch, seq): the trunk's final hidden state, then each draft's, up to `heads` of them, (batch, seq, width).

        Drafts after another see the true token there, as they do in decoding wherever they count: after accepted drafts.
        """
        hidden = state = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
        yield hidden
        embeds = self.model.get_input_embeddings()(ids)
        for i in range((heads or self.heads) - 1):
            embeds = functional.pad(embeds[:, 1:], (0, 0, 0, 1))  # of the token at t + 1 + i; zeros past the end, where no label is
            state = self.advance(i, hidden, state, embeds)
            yield state

    def forward(self, ids: Tensor, heads: int | None = None) -> Tensor:
        """Logits (batch, heads, seq, vocab) of ids (batch, seq); of the first `heads` heads where given."""
        return self.model.lm_head(torch.stack(list(self.states(ids, heads)), dim=1))

    def extra_loss(self, predictions: Tensor, ids: Tensor) -> Tensor | float:
        """What a model with more than heads adds to their loss."""
        return 0.0


class HierarchicalPrediction(MultiTokenPrediction):
    """Heads in a chain: head i fuses the state of head i - 1 with the token that was chosen there, and so knows what it follows.

    Both are vectors of the trunk's width, side by side: the fusion is twice as wide.
    """

    family = "hierarchical"

    @staticmethod
    def block(width: int) -> nn.Module:
        return GatedBlock(2 * width, width // 2, width)

    def advance(self, i: int, hidden: Tensor, before: Tensor, embeds: Tensor | None) -> Tensor:
        return unit(before + self.blocks[i](torch.cat([before, unit(embeds)], dim=-1)))


class AdaptiveMultiTokenPrediction(HierarchicalPrediction):
    """Dependent heads that also learn how far to trust themselves: a logistic model of each draft's chance of acceptance.

    The tutorial's sigmoid gets no training signal. This one is scored, while the heads train, on whether a draft was the
    trunk's own first choice at its place. `predictor` is what decoding asks (see `mtviz.heads.length`).
    """

    family = "adaptive"

    def __init__(self, model: LlamaForCausalLM, heads: int = 4) -> None:
        super().__init__(model, heads)
        self.weights = nn.Parameter(torch.zeros(len(MEASURES)))
        self.offsets = nn.Parameter(torch.zeros(heads - 1))

    def extra_loss(self, predictions: Tensor, ids: Tensor) -> Tensor:
        """Mean cross-entropy of the chances, in nats, given predictions (batch, heads, seq, vocab) for ids (batch, seq).

        A draft is judged where all drafts before it were the text's own tokens: only there is it ever used.
        """
        laws = predictions.detach()
        own = laws[:, 0].argmax(-1)
        losses = []
        previous = past = ids.new_zeros(ids.shape, dtype=torch.float64)
        reached = torch.ones_like(ids, dtype=torch.bool)
        for i in range(predictions.shape[1] - 1):
            length = ids.shape[1] - 2 - i  # positions whose draft has a token and a trunk's choice to be held against
            if length < 1 or not reached[:, :length].any():
                break
            logits, target = laws[:, 1 + i, :length], ids[:, 2 + i :]
            previous, past, reached = previous[:, :length], past[:, :length], reached[:, :length]
            chosen = logits.argmax(-1)
            rows = measures(logits[reached], previous[reached], past[reached]).float()
            agreed = (chosen == own[:, 1 + i : 1 + i + length])[reached].float()
            losses.append(functional.binary_cross_entropy_with_logits(rows @ self.weights + self.offsets[i], agreed))
            previous = logits.double().log_softmax(-1).gather(-1, target[..., None])[..., 0]
            past, reached = past + previous, reached & (chosen == target)
        return torch.stack(losses).mean() if losses else self.weights.sum() * 0.0

    def predictor(self, fingerprint: str, cost: float = 0.3) -> LengthPredictor:
        """The length predictor that was learnt, for drafts that cost `cost` trunk passes each."""
        weights, offsets = tuple(self.weights.tolist()), tuple(self.offsets.tolist())
        return LengthPredictor(self.family, fingerprint, fingerprint, weights, offsets, cost, {"with": "the heads"})


KINDS: dict[str, type[MultiTokenPrediction]] = {
    kind.family: kind for kind in (MultiTokenPrediction, HierarchicalPrediction, AdaptiveMultiTokenPrediction)
}


class JointHeads(Heads):
    """The drafting side of a jointly trained model on its own trunk. Raises HeadsError for a model with one head: it drafts nothing."""

    def __init__(self, model: MultiTokenPrediction, trunk: Trunk) -> None:
        super().__init__(trunk, torch.arange(trunk.vocab_size))
        if model.heads < 2:
            raise HeadsError("a model with one head has nothing to draft with")
        self.family = model.family
        self.max_draft_tokens = model.heads - 1
        self.fingerprint = trunk.fingerprint  # they come in one file
        self.blocks = model.blocks
        self.advance = model.advance

    def unroll(self, tokens: Tensor, hidden: Tensor, depth: int) -> list[Tensor]:
        hidden = hidden[:, :-1].float()
        state, embeds, outputs = hidden, self.embed(tokens[:, 1:]), []
        for i in range(depth):
            state = self.advance(i, delayed(hidden, i), state, embeds)
            outputs.append(state)
            state = delayed(state, 1)
        return outputs

    def start(self) -> HierarchicalState:
        return HierarchicalState()

    @torch.inference_mode()
    def observe(self, state: HierarchicalState, hidden: Tensor, next_ids: Sequence[int]) -> None:
        self.check_pairs(hidden, next_ids)
        if len(hidden):
            state.newest, state.token = hidden[-1:].float(), next_ids[-1]

    @torch.inference_mode()
    def step(self, state: HierarchicalState, i: int, token: int | None) -> Tensor:
        if state.newest is None:
            raise HeadsError("nothing was observed yet, so there is nothing to draft from")
        before, read = (state.newest, state.token) if i == 0 else (state.current, token)
        state.current = self.advance(i, state.newest, before, self.embed(torch.tensor([read])))
        return self.unembed(state.current)[0]
