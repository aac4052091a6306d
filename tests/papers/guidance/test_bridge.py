"""BRIDGE: the three directions by hand and in a run, what the player alone learns from, and GRPO and SFT as limits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.terms import Imitation, PolicyGradient
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.bridge import Cooperative, bridge, upper_direction
from gradus.rollouts.auto import Auto
from gradus.rollouts.beside import Beside
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import check_learns, check_resumes, toy_run, train_toy, weights_after
from gradus.types import UserError
from gradus.types.moments import Moment


def test_the_directions_of_a_quadratic_problem() -> None:
    """J_SFT = -(theta + w - 1)^2 / 2, J_RL = -(theta + w - 3)^2 / 2, theta = 0, theta' = 1, w = 0, lambda = 0.5: theta 2, theta' 2, w 1."""
    theta, alone, w = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (0.0, 1.0, 0.0))

    def slope(target: float, lower: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(-((lower + w - target) ** 2) / 2, of)[0]

    sft, rl = slope(1, theta, theta), slope(3, theta, theta)
    assert (0.5 * sft + 0.5 * rl).item() == 2.0
    assert slope(3, alone, alone).item() == 2.0
    found = upper_direction(slope(1, theta, w), slope(3, theta, w), slope(3, alone, w), lam=0.5)
    assert found.item() == 1.0
    assert upper_direction(sft, rl, rl, lam=0.0).item() == sft.item()


def ours(lam: float, upper: str, **changes: Any) -> Any:
    shares = {"objective__policy__coefficient": lam, "objective__imitation__coefficient": 1 - lam}
    return bridge.but(schedule=ConstantSchedule(), update=Cooperative(upper=upper), **shares, **changes)


def after_a_step(recipe: Any) -> dict[str, torch.Tensor]:
    return weights_after(recipe, steps=1)


OFF = PolicyGradient(coefficient=0.0)
START = toy_run(bridge).players["policy"].policy.network.logits.detach().clone()


def test_the_directions_of_a_run() -> None:
    """Plain descent with rate 1, so a change of weights is a direction. The toy's table is first a lower weight (upper none), then an upper one."""
    sft = after_a_step(ours(0.0, "none"))["policy.logits"] - START
    found = after_a_step(ours(1.0, "none"))
    rl, alone = found["policy.logits"] - START, found["alone.logits"] - START
    both = after_a_step(ours(0.3, "none"))
    assert_close(both["policy.logits"] - START, 0.7 * sft + 0.3 * rl)
    assert_close(both["alone.logits"] - START, alone)
    assert min(x.abs().max().item() for x in (sft, rl, alone)) > 1e-3
    common = after_a_step(ours(0.3, "logits"))
    assert_close(common["policy.logits"] - START, 0.7 * sft + 0.3 * (rl - alone))
    assert_close(upper_direction(sft, rl, alone, lam=0.3), 0.7 * sft + 0.3 * (rl - alone))
    assert torch.equal(common["alone.logits"], common["policy.logits"])  # upper weights are common


def test_the_player_alone_sees_no_solution() -> None:
    with_solutions = after_a_step(ours(0.5, "none"))["alone.logits"]
    without = after_a_step(ours(0.5, "none", rollout__rollout=Beside(share=0.0)))["alone.logits"]
    assert torch.equal(with_solutions, without)


def test_the_limits() -> None:
    plain = grpo.but(objective__kl=None, players__reference=None)
    alone = ours(1.0, "none", rollout__rollout=Beside(share=0.0))  # solutions of further problems would move the later problems of the run
    assert_close(weights_after(alone, steps=3)["policy.logits"], weights_after(plain, steps=3)["policy.logits"], rtol=0, atol=1e-12)
    imitation = after_a_step(ours(0.0, "none"))["policy.logits"]
    no_terms = bridge.but(schedule=ConstantSchedule(), update=Cooperative(upper="none"), objective={"imitation": Imitation(), "policy": OFF})
    assert_close(after_a_step(no_terms)["policy.logits"], imitation, rtol=0, atol=1e-12)


def test_lambda_rises() -> None:
    found = [bridge.schedule.at(Moment(step, 100), bridge)[0].objective for step in (0, 50, 100)]
    assert [o["policy"].coefficient for o in found] == pytest.approx([0.3, 0.55, 0.8])
    assert [o["imitation"].coefficient for o in found] == pytest.approx([0.7, 0.45, 0.2])


def test_the_player_alone_is_renewed_and_the_method_learns() -> None:
    apart: list[float] = []

    def watch(run: Any, row: Any, groups: Any) -> None:
        a, b = (run.players[name].policy.network.logits for name in ("policy", "alone"))
        apart.append((a - b).abs().max().item())
        assert sum(t.player == "alone" for g in groups for t in g.trajectories) == 16

    train_toy(ours(0.5, "none").but(update__renew=3), steps=4, learning_rate=0.1, watch=watch)
    assert apart[3] < apart[2]
    check_learns(bridge)
    check_resumes(bridge, steps=2, after=1)
    with pytest.raises(UserError, match="renew"):
        Cooperative(renew=0)
    assert isinstance(bridge.rollout.test, Auto)
