"""GRAO: the advantages and total weights by hand, the formula term by term, where the reference is left, and REINFORCE as the limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative, group_relative
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.grao import Aligned, aligned, grao
from gradus.rollouts.mixed_policy import MixedPolicy
from gradus.testing.methods import (
    advantages_of,
    check_learns,
    check_micro_batches,
    loss_and_gradient,
    toy_group,
    toy_trajectory,
    train_toy,
    weights_after,
)


def mixed(*own: float, reward: float, lengths: list[int] | None = None, given: int = 1) -> Any:
    """A group of own answers with these rewards, and a reference of `given` tokens."""
    made = toy_group(*own, lengths=lengths or [1] * len(own))
    return made.but(trajectories=(*made.trajectories, toy_trajectory([2] * given, reward=reward, name="g/y", source="expert")))


def test_the_weights_by_hand() -> None:
    """Rewards 0.2, 0.4 and 0.9: mean 0.5, deviation 0.2944. w(o_1) = -1.019 - 0.6 x 2.378 = -2.446; w(o_2) = -0.340 - 0.6 x 1.698 = -1.359;
    w(y) = 0.5 x 1.359 + 0.6 x (0.679 + 1.359) = 1.902."""
    assert group_relative(np.array([0.2, 0.4, 0.9])) == pytest.approx([-1.019, -0.340, 1.359], abs=1e-3)
    found = [a for (a,) in advantages_of(grao.credit, mixed(0.2, 0.4, reward=0.9))[0]]
    assert found == pytest.approx([-2.446, -1.359, 1.902], abs=2e-3)


def test_the_reference_is_left_when_the_answers_pass_it() -> None:
    """w(y) changes its sign where the mean reward of the samples is R(y), for every beta and lambda."""
    for beta, lam in ((0.5, 0.6), (1.0, 0.0), (0.0, 0.3)):
        for shift in (-0.2, -1e-6, 1e-6, 0.2):
            advantages = group_relative(np.array([0.1, 0.3, 0.8, 0.4 + shift]))
            given = np.array([False, False, False, True])
            assert np.sign(aligned(advantages, given, beta=beta, lam=lam)[-1]) == np.sign(shift)


def test_the_loss_is_minus_the_objective_of_the_paper() -> None:
    """Two prompts, answers of different lengths, term by term in plain loops."""
    first, second = mixed(0.2, 1.0, reward=0.9, lengths=[1, 3], given=2), mixed(0.0, 0.5, reward=0.25, lengths=[2, 2])
    second = second.but(key="h", trajectories=tuple(t.but(id=f"h/{i}") for i, t in enumerate(second.trajectories)))
    rows = torch.linspace(-2, -0.1, 11, dtype=torch.float64, requires_grad=True)
    left, total = iter(rows), torch.zeros((), dtype=torch.float64)
    for group in (first, second):
        *own, given = (sum(next(left) for _ in range(t.actions)) / t.actions for t in group.trajectories)
        *mine, theirs = group_relative(group.rewards).tolist()
        for a, length in zip(mine, own, strict=True):
            total = total + (a * length + 0.5 * theirs * given + 0.6 * (a - theirs) * (length - given)) / 2
    (due,) = torch.autograd.grad(-total / 2, rows)
    advantages = [float(c.advantages[0]) for row in grao.credit.assign([first, second], {}) for c in row]
    loss, gradient, _ = loss_and_gradient(grao.objective, [first, second], rows.tolist(), advantages=advantages)
    assert loss == pytest.approx(-total.item() / 2)
    assert gradient == pytest.approx(due.tolist())


def test_without_both_terms_it_is_reinforce() -> None:
    plain = grpo.but(objective__kl=None, players__reference=None, rollout=MixedPolicy(), setting__group=9)
    first, second = (weights_after(r, steps=2)["policy.logits"] for r in (grao.but(credit=Aligned(0.0, 0.0)), plain))
    assert_close(first, second, rtol=0, atol=1e-12)
    assert not torch.allclose(weights_after(grao, steps=2)["policy.logits"], first)


def test_edges() -> None:
    assert advantages_of(Aligned(), mixed(0.5, 0.5, reward=0.5)) == [[[0.0]] * 3]
    own = toy_group(1, 0, 0, lengths=[1, 1, 1])
    assert advantages_of(Aligned(), own) == advantages_of(GroupRelative(), own)  # the reference failed
    lone = mixed(0.0, reward=1.0)
    assert advantages_of(Aligned(), lone.but(trajectories=lone.trajectories[1:])) == [[[0.0]]]
    assert advantages_of(Aligned(), lone.but(trajectories=lone.trajectories[:1])) == [[[0.0]]]


def test_each_group_has_a_reference_and_the_method_learns() -> None:
    seen: list[Any] = []
    train_toy(grao, steps=1, watch=lambda run, row, groups: seen.extend(groups))
    assert all(sum(t.source == "expert" for t in g.trajectories) == 1 for g in seen)
    check_micro_batches(grao)
    check_learns(grao)
