"""The cross-entropy of chances: values and gradients by hand, its minimum, weights, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.chances import ChanceLoss, RewardLikelihood, chance_losses
from gradus.testing.methods import toy_batch, toy_group
from gradus.types import UserError
from gradus.types.signals import Value


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_losses_by_hand():
    # sigmoid(log 3) = 3/4: -log(3/4), -log(1/4), and half of both; at v = 0 every chance costs log 2
    found = chance_losses(numbers(math.log(3), math.log(3), math.log(3), 0, 0), numbers(1, 0, 0.5, 0.3, 1))
    assert_close(found, numbers(-math.log(3 / 4), math.log(4), (math.log(4) - math.log(3 / 4)) / 2, math.log(2), math.log(2)))
    with pytest.raises(ValueError, match="chances"):
        chance_losses(numbers(0), numbers(0, 1))


def test_the_gradient_is_the_error_of_the_chance_and_is_0_at_the_minimum():
    logits = numbers(0, math.log(3), 50.0).requires_grad_()
    chance_losses(logits, numbers(0.25, 0.75, 1.0)).sum().backward()
    assert_close(logits.grad, numbers(0.25, 0.0, 0.0))


def test_only_actions_with_a_weight_count():
    made = toy_batch(toy_group(1, 0, lengths=[2, 2]))
    weights = numbers(1, 0, 1, 0)
    trajectories = tuple(t.but(weights=weights.numpy()[:2]) for t in made.trajectories)
    batch = replace(made, weight=weights, trajectories=trajectories, returns=numbers(1, 0.5, 0, 0.5))
    logits = numbers(math.log(3), 9, 0, 9).requires_grad_()
    loss, metrics = ChanceLoss(coefficient=2.0).loss({Value(): logits}, batch)
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(3 / 4) + math.log(2))  # twice the mean of two
    assert_close(logits.grad, numbers(-0.25, 0, 0.5, 0))
    assert metrics["chance_error"].mean == pytest.approx((1 / 16 + 1 / 4) / 2)


def test_a_rule_without_returns_is_refused():
    batch = toy_batch(toy_group(1, 0))
    with pytest.raises(UserError, match="no returns"):
        ChanceLoss().loss({Value(): numbers(0, 0, 0, 0)}, replace(batch, returns=numbers(math.nan, 0, 0, 0)))


def test_the_likelihood_of_rewards_is_a_mean_over_tokens_with_gradient_sigmoid_minus_reward():
    batch = toy_batch(toy_group(1, 0, lengths=[2, 1]))
    term = RewardLikelihood()
    logits = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64).requires_grad_()
    loss, _ = term.loss({Value("q"): logits}, batch)
    loss.backward()
    rewards = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64)
    assert_close(logits.grad, (logits.detach().sigmoid() - rewards) / 3)
    assert term.needs == ()  # no target holds a prediction of any network


def test_other_rewards_than_0_and_1_are_refused():
    with pytest.raises(UserError, match=r"a reward is 0\.5; use a reward function that gives only 0 and 1"):
        RewardLikelihood().loss({Value("q"): torch.zeros(2, dtype=torch.float64)}, toy_batch(toy_group(0.5)))
