"""Terms on flow-matching errors: hand numbers, gradients, limits."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.flow_matching import MatchedPolicy, Robust, Weighted
from gradus.objectives.trust import Clip, Unclipped
from gradus.types.signals import MatchingError, MatchingTime
from tests.objectives.flow_batch import batch_of


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def sample_batch(*advantages, signals=None):
    return batch_of([{"sample": [[0.0]]} for _ in advantages], advantages, signals)


def outputs(error, time):
    return {MatchingError(error.shape[1]): error, MatchingTime(error.shape[1]): time}


def test_likeness_by_hand():
    error, time = rows(4.0, 1.0), rows(0.5, 0.25)
    assert_close(Weighted(0).logprob(error, time), rows(-4.0, -1.0))
    assert_close(Weighted(2).logprob(error, time), rows(-1.0, -0.0625))
    assert_close(Robust(0.5).logprob(error, time), rows(-2.0, -0.5))  # t sqrt(error) / 0.5: 0.5 * 2 / 0.5, 0.25 * 1 / 0.5
    assert_close(Robust(1.0, floor=0.0).logprob(error, time), Weighted(1).logprob(error, time))


def test_the_robust_gradient_is_finite_at_error_zero():
    error = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    Robust(0.25).logprob(error, torch.ones(3, dtype=torch.float64)).sum().backward()
    assert torch.isfinite(error.grad).all()


def test_loss_and_gradient_by_hand_against_old_errors():
    term = MatchedPolicy(draws=2, likeness=Weighted(0), trust=Clip(0.5, 0.5))
    old = rows([1.0, 1.0], [1.0, 1.0])
    quarter, double = 1 + math.log(4), 1 - math.log(2)  # errors at which the ratio is 1/4 and 2
    error = rows([1.0, double], [quarter, double]).requires_grad_()
    batch = replace(sample_batch(1.0, -1.0), old={MatchingError(2): old})
    loss, metrics = term.loss(outputs(error, torch.full_like(old, 0.5)), batch)
    # A = 1: -1 and -min(2, 1.5) = -1.5, mean -1.25; A = -1: -min(-0.25, -0.5) = 0.5 and -min(-2, -1.5) = 2, mean 1.25
    assert loss.item() == pytest.approx(0.0, abs=1e-12)
    loss.backward()
    # d loss / d error = r A / (2 draws * 2 samples) where not clipped: 1/4, 0, 0, -2/4
    assert_close(error.grad, rows([0.25, 0.0], [0.0, -0.5]))
    assert metrics["clip_share"].mean == pytest.approx(2 / 4)
    assert metrics["ratio"].mean == pytest.approx((1 + 2 + 0.25 + 2) / 4)


def test_at_the_weights_that_drew_the_ratio_is_one_and_the_gradient_that_of_the_surrogate():
    term = MatchedPolicy(draws=3, likeness=Robust(0.25), trust=Clip(1.0, 1.0))
    torch.manual_seed(0)
    error, time = (0.1 + torch.rand(2, 3)).double().requires_grad_(), torch.rand(2, 3).double()
    loss, metrics = term.loss(outputs(error, time), sample_batch(2.0, -0.5))
    assert metrics["ratio"].mean == 1.0
    (ours,) = torch.autograd.grad(loss, error)
    (plain,) = torch.autograd.grad(Robust(0.25).logprob(error, time).sum(), error)
    assert torch.equal(ours != 0, torch.ones(2, 3, dtype=torch.bool))
    assert_close(ours, -rows([2.0], [-0.5]) * plain / 6)  # mean over 2 samples and 3 pairs


def test_weights_of_trajectories_count():
    batch = sample_batch(1.0, 1.0)
    error = torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
    term = MatchedPolicy(draws=1, likeness=Weighted(0), trust=Unclipped())
    loss, _ = term.loss(outputs(error, error.detach()), replace(batch, weight=rows(3.0, 0.0)))
    loss.backward()
    assert_close(error.grad, rows([1.5], [0.0]))
