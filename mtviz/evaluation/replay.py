"""What each proposal length yields on a text that greedy decoding wrote, from one pass over the text.

Under `match` at temperature 0 the text does not depend on the drafts, and the drafts of a round depend only on what
stands before it. So the verdicts of a round at every place follow from one unrolling over the finished text, and those
of the rounds that decoding would have had, at any proposal length, are read off. A decode loop that is run for each
length says the same (`tests/test_replay.py`), hours later; times it alone can tell.
"""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from mtviz.heads import Heads
from mtviz.trunk import Trunk

Text = tuple[Sequence[int], Sequence[int]]  # the prompt's ids and those that greedy decoding wrote after it


@torch.inference_mode()
def agreements(trunk: Trunk, heads: Heads, text: Text) -> Tensor:
    """Bool (new tokens - 1, max_draft_tokens): at [r, i], whether draft i of a round that starts after new token r is the
    text's token, all drafts before it being so."""
    prompt, new = text
    tokens = torch.tensor([*prompt, *new], device=heads.draft_ids.device)
    _, hidden = trunk.forward(tokens.tolist(), trunk.new_cache(), last_only=True)
    starts = torch.arange(len(prompt) + 1, len(tokens), device=tokens.device)
    agree = torch.zeros(len(starts), heads.max_draft_tokens, dtype=torch.bool)
    for i, output in enumerate(heads.unroll(tokens[None], hidden[None].float(), heads.max_draft_tokens)):
        inside = starts[starts + i < len(tokens)] + i
        drafts = heads.draft_ids[heads.unembed(output[0, inside - 2]).argmax(-1)]
        agree[: len(inside), i] = (drafts == tokens[inside]).cpu()
    return agree.cumprod(1).bool()


def rounds(agree: Tensor, new_tokens: int, num_draft_tokens: int, max_new_tokens: int) -> tuple[list[list[str]], list[int]]:
    """Verdicts and number of emitted tokens of each round that decoding would have had with this proposal length."""
    verdicts, emitted, written = [], [], 1
    while written < new_tokens:
        count = min(num_draft_tokens, agree.shape[1], max_new_tokens - written - 1)
        accepted = min(int(agree[written - 1, :count].sum()), new_tokens - written)
        over = accepted == new_tokens - written  # an accepted end token ends it: nothing after it is judged
        judged = ["accepted"] * accepted + ["rejected"] * (accepted < count and not over)
        verdicts.append(judged + ["unjudged"] * (count - len(judged)))
        emitted.append(accepted + (not over))
        written += emitted[-1]
    return verdicts, emitted
