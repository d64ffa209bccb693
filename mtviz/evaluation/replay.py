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

from typing import NamedTuple, Sequence

import torch
from torch import Tensor

from mtviz.heads import Heads
from mtviz.trunk import Trunk


class Text(NamedTuple):
    """The ids of a prompt and of what the trunk wrote after it; and of one pass over them, for all families: the trunk's
    states `hidden` (n, hidden_size), and `probs` (n - 1,) float64 that it gave each token after the first."""

    prompt: Sequence[int]
    new: Sequence[int]
    hidden: Tensor
    probs: Tensor


@torch.inference_mode()
def read(trunk: Trunk, prompt: Sequence[int], new: Sequence[int]) -> Text:
    """One pass over what the trunk wrote. Raises ValueError past the trunk's context."""
    logits, hidden = trunk.forward([*prompt, *new], trunk.new_cache())
    following = torch.tensor([*prompt, *new], device=logits.device)[1:, None]
    probs = [row.double().softmax(-1).gather(-1, token) for row, token in zip(logits, following)]  # a row at a time: all would be large
    return Text(prompt, new, hidden, torch.cat(probs))


@torch.inference_mode()
def agreements(heads: Heads, text: Text, dice: torch.Generator | None = None) -> Tensor:
    """Bool (new tokens - 1, max_draft_tokens): at [r, i], whether draft i of a round that starts after new token r is
    accepted, all drafts before it being so. With `dice` under `speculative`, else under `match`."""
    tokens = torch.tensor([*text.prompt, *text.new], device=heads.draft_ids.device)
    starts = torch.arange(len(text.prompt) + 1, len(tokens), device=tokens.device)
    agree = torch.zeros(len(starts), heads.max_draft_tokens, dtype=torch.bool)
    for i, output in enumerate(heads.unroll(tokens[None], text.hidden[None].float(), heads.max_draft_tokens)):
        inside = starts[starts + i < len(tokens)] + i
        drafted = heads.unembed(output[0, inside - 2])
        if dice is None:
            accepted = heads.draft_ids[drafted.argmax(-1)] == tokens[inside]
        else:
            law = drafted.double().softmax(-1)
            at = torch.searchsorted(heads.draft_ids, tokens[inside]).clamp_max(len(heads.draft_ids) - 1)
            q = law.gather(-1, at[:, None])[:, 0] * (heads.draft_ids[at] == tokens[inside])
            accepted = torch.rand(len(inside), generator=dice).to(q) * text.probs[inside - 1] < q
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
