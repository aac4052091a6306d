"""RL-PLUS: the bounded weight, the advantage of unlikely tokens and the baseline by hand, and GRPO as the limit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import Joint, TokenMean
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import PolicyGradient, evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.rl_plus import AgainstOwn, TwoPolicies, balanced_weight, rl_plus
from gradus.rollouts.auto import Auto
from gradus.testing.methods import (
    advantages_of,
    check_bound_acts,
    check_learns,
    check_micro_batches,
    check_same_update,
    loss_and_gradient,
    toy_group,
    toy_trajectory,
    train_toy,
)
from gradus.types import UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb


def mixed(*own: float, reward: float = 1.0, given: int = 1) -> Any:
    """A group of own answers of one token with these rewards, and a solution of `given` tokens."""
    made = toy_group(*own, lengths=[1] * len(own))
    return made.but(trajectories=(*made.trajectories, toy_trajectory([2] * given, reward=reward, name="g/e", source="expert")))


def logs(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).log()


def test_the_weight_by_hand() -> None:
    """pi = pi_old = 1: 1; both 0.1: 0.2 / (0.1 + 0.55) = 0.3077; 0.1 and 0: 0.2 / 0.5 = 0.4; at most 4, at pi = 1 and pi_old = 0."""
    found = balanced_weight(logs(1, 0.1, 0.1, 1), logs(1, 0.1, 1e-300, 1e-300))
    assert found.tolist() == pytest.approx([1.0, 0.3077, 0.4, 4.0], abs=1e-4)
    p, old = torch.rand(2, 1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert balanced_weight(p.log(), old.log()).max() <= 4
    assert balanced_weight(p.log(), old.log()).tolist() == pytest.approx((2 * p / (old + 0.5 * old + 0.5)).tolist())


@pytest.mark.parametrize(("pi", "factor"), [(0.19, 0.9), (0.99, 0.1)])
def test_an_unlikely_token_has_more_advantage(pi: float, factor: float) -> None:
    """Loss and slope: -r A (1 - pi)^0.5, in which only r = 4 pi / (1 + 3 pi_old) has a gradient."""
    batch = make_batch([mixed(0.0).but(trajectories=(toy_trajectory([2]).but(advantages=np.ones(1)),))], dtype=torch.float64)
    at = logs(pi).requires_grad_()
    losses, _ = TwoPolicies().losses(at, torch.tensor([2.0], dtype=torch.float64), batch)
    (slope,) = torch.autograd.grad(losses.sum(), at)
    r = 4 * pi / (1 + 3 * pi)
    assert (losses.item(), slope.item()) == (pytest.approx(-r * 2 * factor), pytest.approx(-r * 2 * factor))
    plain, _ = TwoPolicies(gamma=0.0).losses(logs(pi), torch.ones(1, dtype=torch.float64), batch)
    assert plain.item() == pytest.approx(-r)
    with pytest.raises(UserError, match="gamma"):
        TwoPolicies(-1.0)


def test_the_weight_reads_the_policy_at_the_start_of_the_update() -> None:
    group = mixed(0.0)
    made = make_batch([group.but(trajectories=tuple(t.but(advantages=np.ones(1)) for t in group.trajectories))], dtype=torch.float64)
    made = made.__class__(**{**vars(made), "old": {LogProb(): logs(0.5, 0.2)}})
    term = PolicyGradient(ratio=Probability(), trust=TwoPolicies(), average=Joint(TokenMean()), source="expert")
    loss, metrics = evaluate({"expert": term}, {LogProb(): logs(0.5, 0.4)}, made)
    assert loss.item() == pytest.approx(-(1.6 / 1.6) * math.sqrt(0.6) / 2)
    assert metrics["given_weight"].mean == pytest.approx(1.0)


def test_the_baseline_is_that_of_the_own_answers() -> None:
    """All own answers wrong: own advantages 0, the solution's 1, for the deviation 0 counts as 1. Own 1, 0, 0, 0: mean 1/4, deviation sqrt(3)/4."""
    assert advantages_of(rl_plus.credit, mixed(0, 0, 0, 0)) == [[[0.0], [0.0], [0.0], [0.0], [1.0]]]
    root = math.sqrt(3)
    found = advantages_of(rl_plus.credit, mixed(1, 0, 0, 0))[0]
    assert [a for (a,) in found] == pytest.approx([root, -1 / root, -1 / root, -1 / root, root])
    sample = [a for (a,) in advantages_of(AgainstOwn("sample"), mixed(1, 0, 0, 0))[0]]
    assert sample == pytest.approx([1.5, -0.5, -0.5, -0.5, 1.5])
    assert advantages_of(AgainstOwn("none"), mixed(1, 0, 0, 0))[0][0] == [0.75]


def test_edges_of_the_baseline() -> None:
    assert advantages_of(AgainstOwn(), mixed(1.0)) == [[[0.0], [0.0]]]  # one own answer, and a solution as good
    assert advantages_of(AgainstOwn(), mixed(0.1, 0.1, 0.1, reward=0.1)) == [[[0.0]] * 4]
    assert advantages_of(AgainstOwn(), mixed(1, 1, reward=0.0)) == [[[0.0], [0.0], [-1.0]]]  # a solution that the verifier refuses
    lone = mixed(0.0)
    assert advantages_of(AgainstOwn(), lone.but(trajectories=lone.trajectories[1:])) == [[[0.0]]]
    own = toy_group(1, 0, 0, lengths=[1, 1, 1])
    assert advantages_of(AgainstOwn(), own) == advantages_of(GroupRelative(), own)


def test_the_loss_by_hand() -> None:
    """Own tokens at ratio 1 with A = 0.5 and -0.5, a solution of two tokens with A = 1, pi = 0.19 and 0.99. Z = 4."""
    rows = [0.0, 0.0, math.log(0.19), math.log(0.99)]
    loss, gradient, _ = loss_and_gradient(rl_plus.objective, [mixed(1, 0, given=2)], rows, advantages=[0.5, -0.5, 1.0])
    given = [4 * p / (1 + 3 * p) * f for p, f in ((0.19, 0.9), (0.99, 0.1))]
    assert loss == pytest.approx(-sum(given) / 4)
    assert gradient == pytest.approx([-0.125, 0.125, -given[0] / 4, -given[1] / 4])


def test_without_solutions_it_is_grpo() -> None:
    plain = grpo.but(objective__kl=None, players__reference=None, objective__policy__average=Joint(TokenMean()), update__count=2)
    check_same_update(rl_plus.but(rollout=Auto()), plain)


def test_a_group_has_one_solution_and_the_method_acts() -> None:
    seen: list[Any] = []
    train_toy(rl_plus, steps=2, watch=lambda run, row, groups: seen.append(groups))
    assert all([t.source for t in g.trajectories] == ["policy"] * 3 + ["expert"] for groups in seen for g in groups)
    check_bound_acts(rl_plus, updates=2, learning_rate=0.5)
    check_micro_batches(rl_plus)
    check_learns(rl_plus)
