"""Medusa's heads from files in their authors' layout."""

from __future__ import annotations

import pytest
import tiny_models
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from mtviz.drafting.files import load_drafters
from mtviz.heads import HeadsError, load_medusa
from mtviz.trunk import Trunk

HEADS, BLOCKS = 3, 2


@pytest.fixture(scope="module")
def trunk() -> Trunk:
    return tiny_models.trunk("llama")


def medusa(trunk: Trunk, rows: int = 320) -> dict[str, torch.Tensor]:
    """As published: `0.0.linear.weight`, `0.0.linear.bias`, …, `0.2.weight` over a padded vocabulary."""
    torch.manual_seed(5)
    width = trunk.hidden_size
    tensors = {}
    for i in range(HEADS):
        for j in range(BLOCKS):
            tensors |= {f"{i}.{j}.linear.weight": 0.3 * torch.randn(width, width), f"{i}.{j}.linear.bias": 0.3 * torch.randn(width)}
        tensors[f"{i}.{BLOCKS}.weight"] = 0.3 * torch.randn(rows, width)
    return tensors


def reference(tensors: dict[str, torch.Tensor], hidden: torch.Tensor, i: int) -> torch.Tensor:
    """Their forward pass, written out."""
    for j in range(BLOCKS):
        block = nn.Linear(len(hidden), len(hidden))
        block.load_state_dict({"weight": tensors[f"{i}.{j}.linear.weight"], "bias": tensors[f"{i}.{j}.linear.bias"]})
        hidden = hidden + functional.silu(block(hidden))
    return tensors[f"{i}.{BLOCKS}.weight"] @ hidden


@pytest.mark.parametrize("name", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
def test_each_head_scores_as_theirs_does_and_the_drafter_serves(trunk, tmp_path, name):
    tensors = medusa(trunk)
    torch.save(tensors, tmp_path / name) if name.endswith(".pt") else save_file(tensors, tmp_path / name)
    drafters, refused = load_drafters(tmp_path, trunk)
    assert list(drafters) == ["parallel"] and not refused
    drafter = drafters["parallel"]()
    assert drafter.max_draft_tokens == HEADS and len(drafter.heads.fingerprint) == 64
    ids = trunk.encode("medusa", raw=True)
    _, hidden = trunk.forward(ids, trunk.new_cache())
    state = drafter.heads.start()
    drafter.heads.observe(state, hidden, [*ids[1:], 3])
    for i, token in enumerate([None, 1, 2]):
        with torch.inference_mode():
            wanted = reference(tensors, hidden[-1], i)[: trunk.vocab_size]
        torch.testing.assert_close(drafter.heads.step(state, i, token), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.pop("1.0.linear.bias"), "lacks the tensor blocks.1.0.bias"),
        (lambda t: t.update({"extra.weight": torch.ones(1)}), "do not know: extra.weight"),
        (lambda t: t.update({"0.2.weight": torch.ones(100, 32)}), r"unembeddings.0.weight has shape \(100, 32\), not \(260, 32\)"),
        (lambda t: t["2.1.linear.weight"].fill_(float("nan")), "blocks.2.1.weight holds NaN"),
        (lambda t: t.clear(), "holds no heads"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(trunk, tmp_path, change, message):
    tensors = medusa(trunk)
    change(tensors)
    torch.save(tensors, tmp_path / "medusa_lm_head.pt")
    with pytest.raises(HeadsError, match=message):
        load_medusa(tmp_path / "medusa_lm_head.pt", trunk)


def test_a_file_with_a_program_in_it_is_not_run(trunk, tmp_path):
    import pickle

    class Program:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (tmp_path / "medusa_lm_head.pt").write_bytes(pickle.dumps(Program()))
    with pytest.raises(HeadsError, match="no Medusa file"):
        load_medusa(tmp_path / "medusa_lm_head.pt", trunk)
    assert not (tmp_path / "ran").exists()
