"""Running the real loop on a scripted trunk while checking, after every round, what must hold after every round."""

import pytest
import torch
from fakes import ScriptedCache, ScriptedDrafter, ScriptedTrunk, prefix_law, state

from mtviz.decoding.loop import PrefillStep, RoundStep, decode
from mtviz.drafting.lookup import LookupDrafter
from mtviz.settings import Settings

VOCAB = 12
PROMPT = [3, 1, 4, 1, 5]
LOSSLESS_AT_0 = ["speculative", "match"]


def new_trunk(seed=0, **given):
    return ScriptedTrunk(prefix_law(VOCAB, seed), VOCAB, **given)


def oracle(trunk, mistakes=lambda drafted_so_far, k: k):
    """Drafts the trunk's own greedy tokens, with a wrong one after `mistakes(rounds so far, k)` right ones."""
    rounds = []

    def script(sequence, k):
        right = mistakes(len(rounds), k)
        rounds.append(right)
        tokens = trunk.greedy(sequence, k)
        if right < k:
            tokens[right] = (tokens[right] + 1) % VOCAB
        return tokens

    return ScriptedDrafter(VOCAB, script=script)


DRAFTERS = {
    "none": lambda trunk: None,
    "lookup": lambda trunk: LookupDrafter(VOCAB),
    "soft": lambda trunk: ScriptedDrafter(VOCAB, law=prefix_law(VOCAB, 99)),
    "oracle": oracle,
    "always wrong": lambda trunk: oracle(trunk, lambda rounds, k: 0),
    "mixed": lambda trunk: oracle(trunk, lambda rounds, k: rounds % (k + 1)),
    "short": lambda trunk: ScriptedDrafter(VOCAB, law=prefix_law(VOCAB, 99), max_draft_tokens=2),
}


def run(trunk, drafter, prompt=PROMPT, **settings):
    """Decode to the end, checking after every round what must hold after every round. Returns steps and new tokens."""
    settings = Settings(**{"rule": "match", "max_new_tokens": 24} | settings)
    sequence, steps = list(prompt), []
    for step in decode(trunk, drafter, prompt, settings):
        steps.append(step)
        new_tokens = [step.token] if isinstance(step, PrefillStep) else step.new_tokens
        before = list(sequence)
        sequence += new_tokens
        check_cache(trunk, sequence)
        if isinstance(step, RoundStep):
            check_round(trunk, step, before, settings)
    assert [step.finish_reason for step in steps[:-1]] == [None] * (len(steps) - 1)
    if isinstance(drafter, ScriptedDrafter):
        assert drafter.observed == [(state(sequence[: i + 1]), sequence[i + 1]) for i in range(len(sequence) - 1)]
    return steps, sequence[len(prompt) :]


def check_cache(trunk, sequence):
    cached = trunk.caches[-1]
    assert cached.length == len(sequence) - 1 and cached.ids == sequence[:-1]
    continued, _ = trunk.forward(sequence[-1:], ScriptedCache(cached.ids))
    uncached, _ = trunk.forward(sequence, ScriptedCache(), last_only=True)
    assert torch.equal(continued, uncached)


def check_round(trunk, step, before, settings):
    """The laws of a round are the trunk's own after the drafts so far, and what is emitted is what was judged."""
    k = len(step.proposal.tokens)
    assert step.start == len(before) and step.cache_lengths == (len(before) - 1, len(before) + k, len(before) + len(step.new_tokens) - 1)
    for i in range(k + 1):
        assert step.raw_probs[i].tolist() == pytest.approx(trunk.probs(before + step.proposal.tokens[:i]), abs=1e-9)
    verdicts, accepted = step.verification.verdicts, step.verification.accepted
    assert verdicts[:accepted] == ["accepted"] * accepted
    assert step.new_tokens[:accepted] == step.proposal.tokens[:accepted]
    ended = accepted > 0 and step.proposal.tokens[accepted - 1] in trunk.end_ids
    if ended:
        assert len(step.new_tokens) == accepted and set(verdicts[accepted:]) <= {"discarded"}
    else:
        assert len(step.new_tokens) == accepted + 1
        assert verdicts[accepted:] == ["rejected", *["unjudged"] * (k - accepted - 1)][: k - accepted]
    assert k <= settings.num_draft_tokens
