"""What each proposal length yields on a text that the trunk wrote, from one pass over the text.

Under an exact rule the text's law does not depend on the drafts, and the drafts of a round depend only on what stands
before it. So the verdicts of a round at every place follow from one unrolling over the finished text, and those
of the rounds that decoding would have had, at any proposal length, are read off. A decode loop that is run for each
length says the same (`tests/test_replay.py`), hours later; times it alone can tell.

`match` at temperature 0: a draft is accepted where it is the text's token. `speculative` at temperature 1, on a text drawn from
the trunk's law p: token x came either as an accepted draft, with probability min(p(x), q(x)), or otherwise, with p(x) in
all. That it came as a draft has then the chance min(1, q(x) / p(x)), and is drawn here (Leviathan et al. 2023, section 2.3).
"""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

from mtviz.heads import Heads
from mtviz.trunk import Trunk

Text = tuple[Sequence[int], Sequence[int]]  # the prompt's ids and those that the trunk wrote after it


@torch.inference_mode()
def agreements(trunk: Trunk, heads: Heads, text: Text, dice: torch.Generator | None = None) -> Tensor:
    """Bool (new tokens - 1, max_draft_tokens): at [r, i], whether draft i of a round that starts after new token r is
    accepted, all drafts before it being so. With `dice` under `speculative`, else under `match`."""
    prompt, new = text
    tokens = torch.tensor([*prompt, *new], device=heads.draft_ids.device)
    logits, hidden = trunk.forward(tokens.tolist(), trunk.new_cache(), last_only=dice is None)
    starts = torch.arange(len(prompt) + 1, len(tokens), device=tokens.device)
    agree = torch.zeros(len(starts), heads.max_draft_tokens, dtype=torch.bool)
    for i, output in enumerate(heads.unroll(tokens[None], hidden[None].float(), heads.max_draft_tokens)):
        inside = starts[starts + i < len(tokens)] + i
        drafted = heads.unembed(output[0, inside - 2])
        if dice is None:
            accepted = heads.draft_ids[drafted.argmax(-1)] == tokens[inside]
        else:
            p = logits[inside - 1].double().softmax(-1).gather(-1, tokens[inside][:, None])[:, 0]
            q = torch.zeros(len(inside), trunk.vocab_size, dtype=p.dtype, device=p.device)
            q[:, heads.draft_ids] = drafted.double().softmax(-1)
            accepted = torch.rand(len(inside), generator=dice).to(p) * p < q.gather(-1, tokens[inside][:, None])[:, 0]
        agree[: len(inside), i] = accepted.cpu()
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
