"""The tutorial's losses on its own shapes, the losses that learn a trunk's law, and the progressive schedule."""

import math

import pytest
import torch
from torch.nn import functional

from mtviz.training.losses import (
    acceptance_loss, cross_entropy, divergence, head_losses, multi_token_loss, weighted, weighted_multi_token_loss,
)  # fmt: skip
from mtviz.training.schedules import Schedule, progressive_training


def certain(rows: list[list[list[int]]], vocab: int = 20) -> torch.Tensor:
    """Predictions (batch, heads, seq, vocab) that are sure of the given tokens."""
    return 50.0 * functional.one_hot(torch.tensor(rows), vocab).float()


def test_field_F20_head_i_is_for_the_token_i_plus_one_places_on():
    """On 10, 11, 12, …: at token 10 index 0 must say 11, index 1 must say 12, index 2 must say 13."""
    labels = torch.arange(10, 16)[None]
    right = certain([[[11, 12, 13, 14, 15, 0], [12, 13, 14, 15, 0, 0], [13, 14, 15, 0, 0, 0]]])
    assert [float(loss) for loss in head_losses(right, labels)] == pytest.approx([0, 0, 0], abs=1e-6)
    shifted_twice = certain([[[12, 13, 14, 15, 0, 0], [14, 15, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]]])
    assert all(loss > 10 for loss in head_losses(shifted_twice, labels))


@pytest.mark.parametrize("seq", [1, 2, 3])
def test_field_F21_a_head_without_a_target_is_left_out(seq):
    predictions = torch.randn(2, 3, seq, 7, requires_grad=True)
    labels = torch.arange(2 * seq).view(2, seq) % 7
    labels[1] = -100
    parts = head_losses(predictions, labels)
    assert [part is None for part in parts] == [i + 1 >= seq for i in range(3)]
    loss = multi_token_loss(predictions, labels)
    loss.backward()
    assert torch.isfinite(loss) and torch.isfinite(predictions.grad).all()
    if seq > 1:
        assert loss.item() == pytest.approx(sum(part.item() for part in parts if part is not None) / (seq - 1))
    assert not predictions.grad[1].any()


def test_field_F21_all_ignored_is_a_zero_with_a_gradient():
    predictions = torch.full((1, 2, 4, 5), torch.inf, requires_grad=True)
    loss = weighted_multi_token_loss(predictions, torch.full((1, 4), -100))
    loss.backward()
    assert loss.item() == 0.0 and not predictions.grad.any()


def test_field_F23_four_dimensional_predictions_give_every_heads_own_loss():
    generator = torch.Generator().manual_seed(2)
    predictions, labels = torch.randn(3, 2, 5, 11, generator=generator), torch.randint(0, 11, (3, 5), generator=generator)
    wanted = []
    for i in range(2):
        rows = [-torch.log_softmax(predictions[b, i, t], -1)[labels[b, t + 1 + i]] for b in range(3) for t in range(5 - 1 - i)]
        wanted.append(torch.stack(rows).mean())
    torch.testing.assert_close(torch.stack(head_losses(predictions, labels)), torch.stack(wanted))
    torch.testing.assert_close(multi_token_loss(predictions, labels), (wanted[0] + wanted[1]) / 2)
    torch.testing.assert_close(weighted_multi_token_loss(predictions, labels), (wanted[0] + wanted[1] / 2) / 2)
    torch.testing.assert_close(weighted_multi_token_loss(predictions, labels, decay=0.8), (wanted[0] + 0.8 * wanted[1]) / 2)


@pytest.mark.parametrize("shape, labels", [((3, 5, 11), (3, 5)), ((3, 2, 5, 11), (3, 4)), ((3, 2, 5, 11), (3, 2, 5)), ((2, 2, 5, 11), (3, 5))])
def test_field_F23_other_shapes_are_named(shape, labels):
    with pytest.raises(ValueError, match=r"must be \(batch, heads, seq, vocab\).*got"):
        multi_token_loss(torch.zeros(shape), torch.zeros(labels, dtype=torch.long))


def test_divergence_and_acceptance_loss_know_equal_and_disjoint_laws():
    logits = torch.randn(4, 7)
    assert float(divergence(logits, logits + 3)) == pytest.approx(0, abs=1e-6)
    assert float(acceptance_loss(logits, logits + 3)) == pytest.approx(0, abs=1e-6)
    fair, sure = torch.tensor([[0.0, 0.0]]), torch.tensor([[50.0, -50.0]])
    assert float(divergence(fair, sure)) == pytest.approx(math.log(2), rel=1e-5)
    assert float(acceptance_loss(fair, sure)) == pytest.approx(math.log(2), rel=1e-5)
    far = acceptance_loss(sure.requires_grad_(), -sure.detach() * 4)
    far.backward()
    assert torch.isfinite(far) and sure.grad.abs().sum() > 0


def test_no_rows_are_no_loss():
    none = torch.zeros(0, 5, requires_grad=True)
    for loss in (divergence(none, none), acceptance_loss(none, none), cross_entropy(none, torch.zeros(0, dtype=torch.long))):
        loss.backward()
        assert loss.item() == 0.0


def test_weights_are_a_mean():
    assert float(weighted([torch.tensor(1.0), torch.tensor(3.0)], 0.5)) == pytest.approx((1 + 1.5) / 1.5)


def test_progressive_training_adds_heads_one_by_one():
    assert [progressive_training(step, 3, 2) for step in range(8)] == [1, 1, 2, 2, 3, 3, 3, 3]
    assert progressive_training(0, 4, 0) == 4
    for bad in ((-1, 3, 2), (0, 0, 2), (0, 3, -1)):
        with pytest.raises(ValueError):
            progressive_training(*bad)


def test_a_schedule_trains_one_draft_first_then_all_or_one_more_at_a_time():
    assert [Schedule(unroll=3, unroll_from=2).depth(step) for step in range(4)] == [1, 1, 3, 3]
    assert [Schedule(unroll=3, unroll_from=2, add_every=1).depth(step) for step in range(6)] == [1, 1, 1, 2, 3, 3]
    with pytest.raises(ValueError, match="kl, cross_entropy, acceptance"):
        Schedule(loss="guess")
