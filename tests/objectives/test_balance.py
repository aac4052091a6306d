"""Trajectory balance: losses and gradients by hand, and by finite differences."""

from __future__ import annotations

import pytest
import torch

from gradus.objectives.balance import TrajectoryBalance
from gradus.objectives.terms import evaluate
from gradus.testing.methods import loss_and_gradient, toy_batch, toy_group
from gradus.types.signals import LogProb


def balance(groups, logprobs, targets):
    return loss_and_gradient({"it": TrajectoryBalance()}, groups, logprobs, advantages=targets)


def test_scores_by_hand():
    # scores 0 and 2 of two answers: mean 1, loss (1 + 1) / 2; slopes 2 (s - mean) / 2
    for shift in (0.0, 7.0):
        loss, slopes, metrics = balance([toy_group(1, 1, lengths=[1, 2])], [-1.0, -0.5, -0.5], [-1.0 + shift, -3.0 + shift])
        assert loss == pytest.approx(1.0)
        assert slopes == pytest.approx([-1.0, 1.0, 1.0])
        assert metrics["balance_error"] == pytest.approx(1.0)


def test_equal_scores_have_no_loss_and_a_group_of_one_has_none():
    groups = [toy_group(1, 1, 1, lengths=[1, 2, 1]), toy_group(1, key="h", lengths=[1])]
    loss, slopes, _ = balance(groups, [-1.0, -0.5, -1.5, -3.0, -9.0], [0.0, -1.0, -2.0, 4.0])
    assert loss == pytest.approx(0)
    assert slopes == pytest.approx([0] * 5, abs=1e-12)


def test_problems_count_alike():
    groups = [toy_group(1, 1, lengths=[1, 1]), toy_group(1, 1, 1, 1, key="h", lengths=[1] * 4)]
    loss, slopes, _ = balance(groups, [0.0, -2.0, 0.0, 0.0, -2.0, -2.0], [0.0] * 6)
    assert loss == pytest.approx((1.0 + 1.0) / 2)
    assert slopes == pytest.approx([0.5, -0.5, 0.25, 0.25, -0.25, -0.25])


def test_the_gradient_passes_a_finite_difference_check():
    batch = toy_batch(toy_group(1, 0, 0.5, lengths=[2, 1, 3]), toy_group(1, 0, key="h"), advantages=[0.4, -0.9, 0.2, 1.0, 2.0])
    rows = torch.linspace(-1, 0.5, batch.actions, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: evaluate({"it": TrajectoryBalance(0.7)}, {LogProb(): x}, batch)[0], rows)
