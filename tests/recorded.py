"""Small traces, recorded by the real engine from a scripted trunk and drafter."""

from fakes import ScriptedDrafter, ScriptedTrunk, prefix_law

from mtviz.atlas import cell_settings, cells, pack
from mtviz.decoding.record import decode_trace
from mtviz.drafting.lookup import LookupDrafter
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


class WordyTrunk(ScriptedTrunk):
    """Its tokens are words of their own, but for one that is half a character."""

    def token_bytes(self, id_):
        return b"\xe8\x81" if id_ == 3 else b" word%d" % id_


def decode_wordy(prompt, settings):
    """As `Service.decode`, by a scripted trunk whose greedy text goes on for a while."""
    trunk = WordyTrunk(scripted_law(5), VOCAB, end_ids=[END])
    yield from decode_trace(trunk, new_drafter(5), prompt, settings)


def decode_copied(prompt, settings):
    """The same with n-gram lookup."""
    yield from decode_trace(WordyTrunk(scripted_law(5), VOCAB, end_ids=[END]), LookupDrafter(VOCAB), prompt, settings)


def wordy_atlas(**settings):
    """An atlas of that trunk, each cell decoded."""
    base = Settings(**{"max_new_tokens": 24, "seed": 3} | settings).to_dict()
    runs = {cell: list(decode_wordy("Once", Settings.from_mapping(cell_settings(base, cell))))[-1] for cell in cells()}
    return pack(runs, {"command": "test", "preset": "made", "date": "today", "python": "3"})
