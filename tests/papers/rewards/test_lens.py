"""LENS: odds by hand, the gradient of the likelihood, groups without a right answer, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.lens import CentredFailures, WrongByConfidence, calibrated, lens
from gradus.rewards.verified import Verified
from gradus.testing.methods import advantages_of, check_micro_batches, toy_group, toy_trajectory, train_toy, weights_after
from gradus.types import UserError


def answers(*pairs):
    return [toy_trajectory([2, 3], reward=r, name=f"g/{i}", logprobs=[2 * math.log(c) + 0.05, -0.05]) for i, (r, c) in enumerate(pairs)]


def test_odds_by_hand() -> None:
    """D = 0.5: 0.25 / 0.25, 0.1 / 0.4 and 0.05 / 0.45."""
    found = calibrated(np.array([0, 0, 0, 1.0]), np.array([0.25, 0.1, 0.05, 0.2]), 0.5)
    assert found.tolist() == pytest.approx([-1, -0.25, -0.1111, 1], abs=5e-5)
    paid = WrongByConfidence().paid(answers((0.0, 0.25), (0.0, 0.1), (0.0, 0.05), (1.0, 0.2)))  # D = 2 * 0.25
    assert [r for r, _ in paid] == pytest.approx([-1, -0.25, -0.1111, 1], abs=5e-5)
    assert paid[3][0] == 1.0
    assert paid[0][1]["confidence"] == pytest.approx(0.25)
    sure = WrongByConfidence().paid(answers((0.0, 0.25), (1.0, 0.5)))  # D = 1, from the right answer
    assert [r for r, _ in sure] == pytest.approx([-0.25 / 0.75, 1.0])
    assert WrongByConfidence().paid([]) == []


def test_the_gradient_of_the_likelihood_is_a_policy_gradient() -> None:
    """L = -mean_i [r_i log p_i + (1 - r_i) log(1 - p_i / D)] over five answers of a softmax: its gradient is -mean_i r~_i grad log p_i."""
    logits, r, bound = np.array([0.3, -0.2, 1.0, 0.0, -1.0]), np.array([0, 1, 0, 0, 1.0]), 0.9

    def p_of(x):
        return np.exp(x) / np.exp(x).sum()

    def loss(x):
        p = p_of(x)
        return -np.mean(r * np.log(p) + (1 - r) * np.log(1 - p / bound))

    p = p_of(logits)
    found = -np.mean(calibrated(r, p, bound)[:, None] * (np.eye(5) - p), axis=0)
    step = 1e-5
    numeric = [(loss(logits + step * e) - loss(logits - step * e)) / (2 * step) for e in np.eye(5)]
    np.testing.assert_allclose(found, numeric, atol=1e-6)


def test_groups_without_a_right_answer() -> None:
    flat = [r for r, _ in WrongByConfidence().paid(answers((0.0, 0.4), (0.0, 0.4), (0.0, 0.4)))]
    assert flat == pytest.approx([-1.0] * 3)
    assert np.allclose(advantages_of(lens.credit, toy_group(*flat))[0], 0.0)
    paid = [r for r, _ in WrongByConfidence().paid(answers((0.0, 0.25), (0.0, 0.1), (0.0, 0.05)))]
    found = [a[0] for a in advantages_of(lens.credit, toy_group(*paid))[0]]
    assert found == pytest.approx([0.5 * (x + 1.3611111 / 3) for x in (-1, -0.25, -0.1111111)])
    assert min(found) == found[0]
    assert sum(found) == pytest.approx(0.0)
    assert advantages_of(lens.credit, toy_group(-1.0))[0] == [[0.0, 0.0]]


def test_groups_with_a_right_answer_are_standardised() -> None:
    found = advantages_of(CentredFailures(), toy_group(1.0, -0.25, -1.0))[0]
    rewards = np.array([1.0, -0.25, -1.0])
    assert [a[0] for a in found] == pytest.approx(((rewards - rewards.mean()) / rewards.std()).tolist())


def test_the_spread_of_penalties_is_noted() -> None:
    class World:
        def __init__(self):
            self.noted = []

        def note(self, name, value):
            self.noted.append((name, value))

    class Given:
        needs = ()

        async def score(self, groups, signals, world):
            from gradus.types.parts import Judgement

            return [[Judgement(t.reward) for t in g.trajectories] for g in groups]

    world = World()
    wrong = toy_group(0, 0).but(trajectories=tuple(answers((0.0, 0.25), (0.0, 0.1))))
    mixed = toy_group(0, 0).but(trajectories=tuple(answers((0.0, 0.25), (1.0, 0.1))))
    asyncio.run(WrongByConfidence(Given()).score([wrong, mixed], {}, world))
    assert world.noted == [("penalty_spread", pytest.approx(0.375))]


def test_every_group_has_a_gradient_and_the_limit_is_grpo() -> None:
    seen: list[dict] = []
    train_toy(lens, steps=3, watch=lambda run, metrics, groups: seen.append(dict(metrics)))
    assert all(row["informative"] > 0.7 for row in seen)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (lens.but(reward=Verified()), grpo))
    assert torch.equal(one, other)
    check_micro_batches(lens)
    with pytest.raises(UserError, match=r"WrongByConfidence.factor"):
        WrongByConfidence(factor=1.0)
    assert (lens.reward.factor, lens.credit.weight, lens.setting.group) == (2.0, 0.5, 16)
