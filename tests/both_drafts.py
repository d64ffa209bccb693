"""The same prompt decoded here and by transformers, and what each drafts in its rounds."""

from __future__ import annotations

import torch
from transformers.generation.candidate_generator import MTPCandidateGenerator

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.drafting.heads import HeadsDrafter
from mtviz.settings import Settings
from mtviz.trunk import Trunk

PROMPT = "the cat sat on the mat. the cat"
NEW_TOKENS = 30


def ours(trunk: Trunk, heads, length: int) -> tuple[list[int], dict[int, list[int]]]:
    """The text after the prompt, and the drafts of each round by where it starts."""
    prompt = trunk.encode(PROMPT, raw=True)
    ids: list[int] = []
    drafts: dict[int, list[int]] = {}
    for step in decode(trunk, HeadsDrafter(heads), prompt, Settings(rule="match", num_draft_tokens=length, max_new_tokens=NEW_TOKENS)):
        if isinstance(step, PrefillStep):
            ids.append(step.token)
        else:
            ids += step.new_tokens
            drafts[step.start] = step.proposal.tokens
    return ids, drafts


def greedy(trunk: Trunk, **options) -> list[int]:
    prompt = torch.tensor([trunk.encode(PROMPT, raw=True)])
    output = trunk.model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=NEW_TOKENS, **options)
    return output[0, prompt.shape[1] :].tolist()


def theirs(monkeypatch) -> dict[int, list[int]]:
    """What transformers drafts in `generate(use_mtp=True)` from now on, by the length of the text before."""
    drafts: dict[int, list[int]] = {}
    propose = MTPCandidateGenerator.get_candidates

    def spy(self, input_ids, **given):
        candidates, logits = propose(self, input_ids, **given)
        if logits is not None:
            drafts[input_ids.shape[1]] = candidates[0, input_ids.shape[1] :].tolist()
        return candidates, logits

    monkeypatch.setattr(MTPCandidateGenerator, "get_candidates", spy)
    return drafts
