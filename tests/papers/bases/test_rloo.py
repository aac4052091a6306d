"""RLOO: its baseline by hand, unbiased, and its limit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from gradus.credit.groups import BatchBaseline, leave_one_out
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.bases.rloo import rloo
from gradus.testing.methods import advantages_of, toy_group, train_toy, weights_after


def test_advantages_by_hand():
    # 1 - 0, 0 - 1/2, 0 - 1/2
    assert advantages_of(rloo.credit, toy_group(1, 0, 0)) == [[[1, 1], [-0.5, -0.5], [-0.5, -0.5]]]
    assert advantages_of(rloo.credit, toy_group(3)) == [[[0, 0]]]


def test_the_baseline_leaves_the_gradient_as_it_is():
    # a policy of one step with chances p and rewards r: the mean over all groups of 3 of A_i grad log pi_i is that of r_i grad log pi_i
    chances, rewards = np.array([0.2, 0.5, 0.3]), np.array([1.0, -1.0, 0.5])
    score = np.eye(3) - chances  # grad of log softmax, a row a choice
    plain = chances @ (rewards[:, None] * score)
    mean = np.zeros(3)
    for choices in itertools.product(range(3), repeat=3):
        found = leave_one_out(rewards[list(choices)])
        mean += np.prod(chances[list(choices)]) * sum(a * score[c] for a, c in zip(found, choices, strict=True)) / 3
    np.testing.assert_allclose(mean, plain, atol=1e-12)


def test_without_its_difference_it_is_reinforce():
    ours = weights_after(rloo.but(credit=BatchBaseline()))
    assert torch.equal(ours["policy.logits"], weights_after(reinforce)["policy.logits"])


@pytest.mark.nightly
def test_it_learns():
    seen = []
    train_toy(rloo, steps=50, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-10:]) > np.mean(seen[:5]) + 0.15
