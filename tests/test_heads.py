"""Heads: identity start, the recursive module's own cache, drafting, files that do not fit."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from test_trunk import tiny_trunk

from mtviz.decoding.sampling import sampler
from mtviz.drafting.heads import HeadsDrafter
from mtviz.heads import FAMILIES, Heads, HeadsError, MtpHeads, load_heads, save_heads
from mtviz.settings import Settings

DRAFT_IDS = torch.arange(0, 256, 2)


@pytest.fixture(scope="module")
def trunk():
    return tiny_trunk()


def random_heads(trunk, seed: int = 1, family: str = "mtp") -> Heads:
    """Heads away from their identity start, so that tokens and past matter."""
    heads = FAMILIES[family](trunk, DRAFT_IDS)
    torch.manual_seed(seed)
    for weight in heads.parameters():
        weight.data.add_(0.2 * torch.randn_like(weight))
    return heads.eval().requires_grad_(False)


def states_and_ids(trunk, count: int, seed: int = 0):
    ids = torch.randint(0, 256, (count + 1,), generator=torch.Generator().manual_seed(seed)).tolist()
    _, hidden = trunk.forward(ids[:count], trunk.new_cache())
    return hidden, ids[1:]


def test_mtp_starts_as_the_identity_at_every_application(trunk):
    heads = MtpHeads(trunk, DRAFT_IDS)
    hidden, ids = states_and_ids(trunk, 6)
    state = heads.start()
    heads.observe(state, hidden, ids)
    wanted = heads.unembed(hidden[-1])
    for i, token in enumerate([None, 4, 8]):
        torch.testing.assert_close(heads.step(state, i, token), wanted, atol=1e-4, rtol=1e-4)


def test_observing_piecewise_or_after_drafting_changes_nothing(trunk):
    heads = random_heads(trunk)
    hidden, ids = states_and_ids(trunk, 9)
    whole, pieces = heads.start(), heads.start()
    heads.observe(whole, hidden, ids)
    for first, last in ((0, 4), (4, 5), (5, 9)):
        heads.observe(pieces, hidden[first:last], ids[first:last])
        for i, token in enumerate([None, 2, 6]):  # rejected drafts, to be forgotten
            heads.step(pieces, i, token)
    heads.observe(pieces, hidden[:0], [])
    for i, token in enumerate([None, 10, 12]):
        torch.testing.assert_close(heads.step(pieces, i, token), heads.step(whole, i, token), atol=1e-5, rtol=1e-5)


def test_drafting_again_without_new_pairs_repeats_itself(trunk):
    heads = random_heads(trunk)
    hidden, ids = states_and_ids(trunk, 4)
    drafter = HeadsDrafter(heads)
    drafter.observe(hidden, ids)
    first = drafter.propose(ids, 5, sampler(Settings(temperature=0.0), lambda: 0.5))
    again = drafter.propose(ids, 5, sampler(Settings(temperature=0.0), lambda: 0.5))
    assert first.tokens == again.tokens and len(first.tokens) == 5


def test_nothing_observed_is_an_error(trunk):
    heads = random_heads(trunk)
    with pytest.raises(HeadsError, match="nothing was observed"):
        heads.step(heads.start(), 0, None)
    with pytest.raises(HeadsError, match="paired"):
        heads.observe(heads.start(), torch.zeros(2, 32), [1])


@pytest.mark.parametrize("count", [0, 1, 3, 8, 20])
def test_any_length_up_to_the_familys_own(trunk, count):
    heads = random_heads(trunk)
    hidden, ids = states_and_ids(trunk, 3)
    drafter = HeadsDrafter(heads)
    drafter.observe(hidden, ids)
    proposal = drafter.propose(ids, count, sampler(Settings(temperature=1.0), lambda: 0.3))
    assert len(proposal.tokens) == min(count, 8)
    assert proposal.draft_probs.shape == proposal.raw_draft_probs.shape == (min(count, 8), trunk.vocab_size)


def test_laws_are_those_the_tokens_were_drawn_from(trunk):
    heads = random_heads(trunk)
    hidden, ids = states_and_ids(trunk, 3)
    counts = torch.zeros(trunk.vocab_size)
    drafter = HeadsDrafter(heads)
    drafter.observe(hidden, ids)
    settings = Settings(temperature=0.7, top_k=5)
    for n in range(400):
        proposal = drafter.propose(ids, 1, sampler(settings, lambda: (n + 0.5) / 400))
        counts[proposal.tokens[0]] += 1
    law = proposal.draft_probs[0]
    assert law.dtype == torch.float64 and abs(float(law.sum()) - 1) < 1e-12
    assert float((counts / 400 - law).abs().max()) < 0.01
    outside = torch.ones(trunk.vocab_size, dtype=torch.bool)
    outside[DRAFT_IDS] = False
    assert not law[outside].any() and not proposal.raw_draft_probs[0][outside].any()
    assert (law > 0).sum() == 5 and (proposal.raw_draft_probs[0] > 0).sum() == len(DRAFT_IDS)


def test_at_temperature_0_tokens_are_argmaxes(trunk):
    heads = random_heads(trunk)
    hidden, ids = states_and_ids(trunk, 3)
    drafter = HeadsDrafter(heads)
    drafter.observe(hidden, ids)
    proposal = drafter.propose(ids, 4, sampler(Settings(temperature=0.0), lambda: 0.9))
    assert proposal.tokens == proposal.raw_draft_probs.argmax(-1).tolist()


@pytest.mark.parametrize("ids", [[3, 2], [1, 1], [], [0, 300], [-1, 4]])
def test_draft_vocabulary_must_be_sorted_ids_of_the_trunk(trunk, ids):
    with pytest.raises(HeadsError, match="sorted, distinct"):
        MtpHeads(trunk, torch.tensor(ids, dtype=torch.long))


def test_save_and_load_are_identical_in_bfloat16(trunk, tmp_path):
    heads = random_heads(trunk)
    save_heads(heads, tmp_path / "mtp.safetensors")
    loaded = load_heads(tmp_path / "mtp.safetensors", trunk)
    assert loaded.note is None and [p.name for p in tmp_path.iterdir()] == ["mtp.safetensors"]
    for name, tensor in heads.state_dict().items():
        kept = tensor if name == "draft_ids" else tensor.bfloat16().float()
        assert torch.equal(loaded.state_dict()[name], kept), name
    stored = load_file(tmp_path / "mtp.safetensors")
    assert not any("embed" in name for name in stored) and set(stored) == set(heads.state_dict())


def rewrite(path, change):
    """Save a heads file again after `change(tensors, metadata)`."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata())
    change(tensors, metadata)
    save_file(tensors, path, metadata=metadata)


NORM = "layer.hnorm.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, m: t.pop(NORM), NORM),
        (lambda t, m: t.pop("draft_ids"), "draft_ids"),
        (lambda t, m: t.update(stray=torch.zeros(1)), "stray"),
        (lambda t, m: t.update({NORM: torch.zeros(5)}), r"hnorm.weight has shape \(5,\)"),
        (lambda t, m: t[NORM].__setitem__(0, float("nan")), "hnorm.weight holds NaN"),
        (lambda t, m: m.update(width="576"), "width is 576, this trunk's 32"),
        (lambda t, m: m.update(vocab_size="49152"), "vocab_size is 49152, this trunk's 260"),
        (lambda t, m: m.update(tokenizer_hash="0"), "tokenizer_hash"),
        (lambda t, m: m.update(family="psychic"), "known family"),
        (lambda t, m: m.clear(), "format"),
    ],
)
def test_field_F22_a_file_that_does_not_fit_is_refused_by_name(trunk, tmp_path, change, message):
    path = tmp_path / "mtp.safetensors"
    save_heads(random_heads(trunk), path)
    rewrite(path, change)
    with pytest.raises(HeadsError, match=message):
        load_heads(path, trunk)


def test_truncated_and_missing_files_are_refused(trunk, tmp_path):
    path = tmp_path / "mtp.safetensors"
    save_heads(random_heads(trunk), path)
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(HeadsError, match="truncated"):
        load_heads(path, trunk)
    with pytest.raises(HeadsError, match="no heads file"):
        load_heads(tmp_path / "none.safetensors", trunk)


def test_other_weights_of_the_same_architecture_get_a_note(trunk, tmp_path):
    save_heads(random_heads(trunk), tmp_path / "mtp.safetensors")
    loaded = load_heads(tmp_path / "mtp.safetensors", tiny_trunk(seed=5))
    assert loaded.note and loaded.trunk_fingerprint == trunk.fingerprint
