"""The families without attention: identity start, what each head sees, drafting, files, size."""

import pytest
import torch
from safetensors.torch import load_file
from test_heads import DRAFT_IDS, random_heads, rewrite, states_and_ids
from test_trunk import byte_tokenizer, tiny_trunk
from transformers import LlamaConfig, LlamaForCausalLM

from mtviz.decoding.loop import PrefillStep, decode
from mtviz.decoding.sampling import sampler
from mtviz.drafting.heads import HeadsDrafter
from mtviz.heads import FAMILIES, HeadsError, load_heads, save_heads
from mtviz.settings import Settings
from mtviz.trunk import Trunk, kernel

GREEDY = sampler(Settings(temperature=0.0), lambda: 0.5)
families = pytest.mark.parametrize("family", ["parallel", "hierarchical"])


@pytest.fixture(scope="module")
def trunk():
    return tiny_trunk()


@families
def test_heads_start_as_the_identity(trunk, family):
    heads = FAMILIES[family](trunk, DRAFT_IDS)
    hidden, ids = states_and_ids(trunk, 6)
    state = heads.start()
    heads.observe(state, hidden, ids)
    for i, token in enumerate([None, 4, 8, 2, 2, 2, 2, 2]):
        torch.testing.assert_close(heads.step(state, i, token), heads.unembed(hidden[-1]), atol=1e-3, rtol=1e-3)


@families
def test_rejected_drafts_leave_no_trace(trunk, family):
    heads = random_heads(trunk, family=family)
    hidden, ids = states_and_ids(trunk, 9)
    fresh, used = heads.start(), heads.start()
    heads.observe(fresh, hidden, ids)
    for first, last in ((0, 4), (4, 5), (5, 9)):
        heads.observe(used, hidden[first:last], ids[first:last])
        for i, token in enumerate([None, 2, 6]):
            heads.step(used, i, token)
    heads.observe(used, hidden[:0], [])
    for i, token in enumerate([None, 10, 12]):
        assert torch.equal(heads.step(used, i, token), heads.step(fresh, i, token))


def test_parallel_heads_are_blind_to_tokens_and_hierarchical_ones_see_all_before_them(trunk):
    hidden, ids = states_and_ids(trunk, 5)

    both = {family: random_heads(trunk, family=family) for family in ("parallel", "hierarchical")}

    def third(family: str, next_id: int, first: int, second: int) -> torch.Tensor:
        heads = both[family]
        state = heads.start()
        heads.observe(state, hidden, [*ids[:-1], next_id])
        return [heads.step(state, i, token) for i, token in enumerate([None, first, second])][-1]

    changed = [(8, 2, 4), (6, 3, 4), (6, 2, 5)]
    plain = third("parallel", 6, 2, 4)
    assert all(torch.equal(plain, third("parallel", *tokens)) for tokens in changed)
    plain = third("hierarchical", 6, 2, 4)
    assert not any(torch.allclose(plain, third("hierarchical", *tokens)) for tokens in changed)


@families
@pytest.mark.parametrize("count", [0, 1, 3, 8, 20])
def test_any_length_up_to_eight(trunk, family, count):
    hidden, ids = states_and_ids(trunk, 3)
    drafter = HeadsDrafter(random_heads(trunk, family=family))
    drafter.observe(hidden, ids)
    assert len(drafter.propose(ids, count, GREEDY).tokens) == min(count, 8)


@families
def test_decoding_with_them_gives_the_trunks_own_text(trunk, family):
    settings = Settings(rule="match", temperature=0.0, num_draft_tokens=5, max_new_tokens=24)
    texts = []
    for drafter in (None, HeadsDrafter(random_heads(trunk, family=family))):
        tokens = []
        for step in decode(trunk, drafter, [5, 6, 7], settings):
            tokens += [step.token] if isinstance(step, PrefillStep) else step.new_tokens
        texts.append(tokens)
    assert texts[0] == texts[1]


@families
@pytest.mark.parametrize("compiled", [True, False])
def test_packed_drafting_gives_the_same_logits(family, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(kernel, "compiled_kernel", lambda: None)
    trunk = tiny_trunk(dtype=torch.bfloat16)
    heads = random_heads(trunk, family=family)
    for weight in heads.parameters():
        weight.copy_(weight.bfloat16())  # as in a file
    hidden, ids = states_and_ids(trunk, 6)

    def logits() -> torch.Tensor:
        state = heads.start()
        heads.observe(state, hidden, ids)
        return torch.stack([heads.step(state, i, token) for i, token in enumerate([None, 4, 8])])

    plain = logits()
    heads.fuse()
    torch.testing.assert_close(logits(), plain, atol=2e-3, rtol=2e-3)


@families
def test_nothing_observed_and_unpaired_states_are_errors(trunk, family):
    heads = random_heads(trunk, family=family)
    with pytest.raises(HeadsError, match="nothing was observed"):
        heads.step(heads.start(), 0, None)
    with pytest.raises(HeadsError, match="paired"):
        heads.observe(heads.start(), torch.zeros(2, 32), [1])


@families
def test_save_and_load_are_identical_in_bfloat16(trunk, tmp_path, family):
    heads = random_heads(trunk, family=family)
    save_heads(heads, tmp_path / "x.safetensors")
    loaded = load_heads(tmp_path / "x.safetensors", trunk)
    assert loaded.family == family and set(load_file(tmp_path / "x.safetensors")) == set(heads.state_dict())
    for name, tensor in heads.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor if name == "draft_ids" else tensor.bfloat16().float()), name


@families
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, m: t.pop("shared.up.weight"), "lacks the tensor shared.up.weight"),
        (lambda t, m: t.update(stray=torch.zeros(1)), "stray"),
        (lambda t, m: t.update({"shared.up.weight": torch.zeros(5)}), "has shape"),
        (lambda t, m: t["shared.up.weight"].fill_(float("inf")), "NaN or infinite"),
        (lambda t, m: m.update(width="576"), "width is 576"),
        (lambda t, m: m.update(tokenizer_hash="0"), "tokenizer_hash"),
        (lambda t, m: m.update(family="mtp"), "lacks the tensor"),
    ],
)
def test_field_F22_a_file_that_does_not_fit_is_refused_by_name(trunk, tmp_path, family, change, message):
    path = tmp_path / "x.safetensors"
    save_heads(random_heads(trunk, family=family), path)
    rewrite(path, change)
    with pytest.raises(HeadsError, match=message):
        load_heads(path, trunk)


@families
def test_a_file_for_a_trunk_of_width_576_stays_under_ten_megabytes(family):
    config = LlamaConfig(
        vocab_size=260, hidden_size=576, intermediate_size=32, num_hidden_layers=1, num_attention_heads=9,
        num_key_value_heads=3, eos_token_id=258,
    )  # fmt: skip
    heads = FAMILIES[family](Trunk(LlamaForCausalLM(config), byte_tokenizer(), "wide"), DRAFT_IDS)
    assert 2 * sum(weight.numel() for weight in heads.parameters()) + 4 * 8192 < 9.5e6
