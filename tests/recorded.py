"""Small traces, recorded by the real engine from a scripted trunk and drafter."""

from fakes import ScriptedDrafter, ScriptedTrunk, prefix_law

from mtviz.decoding.record import decode_trace
from mtviz.settings import Settings

VOCAB = 10
END = 9


def scripted_law(seed, mixed_with=None):
    """A law in which the end token is rare; with a second seed, the mixture of two such laws."""
    laws = [prefix_law(VOCAB, number) for number in (seed, mixed_with) if number is not None]

    def law(prefix):
        weights = [sum(column) for column in zip(*(one(tuple(prefix)) for one in laws))]
        weights[END] *= 0.1
        return [weight / sum(weights) for weight in weights]

    return law


def new_trunk(seed=0, **given):
    return ScriptedTrunk(scripted_law(seed), VOCAB, **{"end_ids": [END]} | given)


def new_drafter(seed=0):
    """Near the trunk of the same seed, so that some drafts are accepted and some are not."""
    return ScriptedDrafter(VOCAB, law=scripted_law(seed, mixed_with=seed + 1000))


def record(seed=0, trunk=None, drafter=None, **settings):
    given = Settings(**{"temperature": 1.0, "max_new_tokens": 24, "seed": seed} | settings)
    *_, trace = decode_trace(trunk or new_trunk(seed), drafter or new_drafter(seed), "Once", given)
    return trace
