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

from mtviz.decoding.sampling import sampler
from mtviz.drafting.protocol import Drafter
from mtviz.heads import Heads
from mtviz.settings import Settings
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
        judged, more = _round(int(agree[written - 1, :count].sum()), count, new_tokens - written)
        verdicts.append(judged)
        emitted.append(more)
        written += more
    return verdicts, emitted


@torch.inference_mode()
def followed(drafter: Drafter, text: Text, settings: Settings) -> tuple[list[list[str]], list[int]]:
    """`rounds` under `match` at temperature 0, of a drafter that chooses how many drafts it makes, or copies them: it drafts for real from
    the states of the one pass, and what the trunk would have chosen is the text."""
    ids = [*text.prompt, *text.new]
    sample = sampler(settings, lambda: 0.0)  # at temperature 0 no draw decides
    drafter.start()
    drafter.observe(text.hidden[: len(text.prompt)], ids[1 : len(text.prompt) + 1])
    verdicts, emitted, written = [], [], 1
    while written < len(text.new):
        at = len(text.prompt) + written
        count = min(settings.num_draft_tokens, drafter.max_draft_tokens, settings.max_new_tokens - written - 1)
        drafts = drafter.propose(ids[:at], count, sample).tokens if count else []
        accepted = next((i for i, (draft, token) in enumerate(zip(drafts, ids[at:])) if draft != token), len(drafts))
        judged, more = _round(accepted, len(drafts), len(text.new) - written)
        drafter.observe(text.hidden[at - 1 : at - 1 + more], ids[at : at + more])
        verdicts.append(judged)
        emitted.append(more)
        written += more
    return verdicts, emitted


def _round(accepted: int, count: int, left: int) -> tuple[list[str], int]:
    """Verdicts and number of emitted tokens of a round whose first `accepted` of `count` drafts agree, `left` tokens before the text's end."""
    accepted = min(accepted, left)
    rest = count - accepted
    if accepted == left:  # an end token: what was drafted after it is discarded
        return ["accepted"] * accepted + ["discarded"] * rest, accepted
    return ["accepted"] * accepted + ["rejected"] * (rest > 0) + ["unjudged"] * (rest - 1), accepted + 1
