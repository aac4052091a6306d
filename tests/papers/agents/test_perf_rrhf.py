"""PerfRL: the tiers by hand, the loss of the row, equal costs of equal programs, the reference in the group, and RRHF at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.environments.program_cost import Cost
from gradus.papers.agents.perf_rrhf import SpeedTiers, perf_rrhf, speed_up
from gradus.papers.bases.rrhf import rrhf
from gradus.recipe.core import changes
from gradus.rollouts.auto import Auto
from gradus.tasks.code.code_speed import code_speed
from gradus.testing.methods import check_micro_batches, loss_and_gradient, scripted_world, toy_group, toy_trajectory, weights_after
from gradus.types import Group, Key, Request

OLD = Cost(1.0, 100, 0, 0)


def cost(time: int, passed: float = 1.0, broken: bool = False) -> Cost:
    return Cost(passed, time, 0, 0, broken)


def test_tiers_by_hand() -> None:
    values = [SpeedTiers().value(OLD, new) for new in (cost(0, 0.0, True), cost(1, 0.5), cost(100), cost(95), cost(50), cost(25), cost(1))]
    assert values == pytest.approx([-1.0, -0.3, 0.3, 0.3, 1.5, 2.0, 2.0])
    assert SpeedTiers().value(cost(110), cost(100)) == pytest.approx(1 + 1.1 / 4)
    assert speed_up(OLD, cost(50)) == 2.0
    assert speed_up(OLD, cost(50, 0.9)) == 0.0
    # a program that fails a test never scores above 0, however fast it is
    assert all(SpeedTiers().value(OLD, cost(time, 5 / 6)) < 0 for time in (1, 50, 100))


def test_the_loss_of_the_row() -> None:
    # p -.5 -.3 -.9 with R 1.5 .3 -1: only the first pair is in the wrong order, by .2; the best is the first
    ranking = perf_rrhf.but(objective__imitation=None).objective
    loss, slopes, _ = loss_and_gradient(ranking, [toy_group(1.5, 0.3, -1, lengths=[1, 1, 1])], [-0.5, -0.3, -0.9])
    assert loss == pytest.approx(0.2)
    assert slopes == pytest.approx([-1, 1, 0])
    both, slopes, _ = loss_and_gradient(perf_rrhf.objective, [toy_group(1.5, 0.3, -1, lengths=[1, 1, 1])], [-0.5, -0.3, -0.9])
    assert both == pytest.approx(0.2 + 0.5)
    assert slopes == pytest.approx([-2, 1, 0])


def test_rewards_of_programs() -> None:
    task = code_speed(level=1)
    (p,) = task.source.draw([0], 1, Key(0))
    texts = [p.meta["fast"], p.question, p.meta["fast"].replace(")", "+1)"), "import os", "", p.meta["fast"]]
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=p, completion=text) for i, text in enumerate(texts))
    world, _ = scripted_world(task, lambda ask: "")
    (found,) = asyncio.run(SpeedTiers().score([Group("g", rows)], {}, world))
    assert [j.reward for j in found[1:5]] == [0.3, -0.3, -1.0, -1.0]
    assert found[0].reward == found[5].reward > 1.2  # the same program twice
    assert [j.components["verified"] for j in found] == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def test_the_faster_program_of_the_data_is_in_the_group() -> None:
    task = code_speed(level=1)
    (p,) = task.source.draw([0], 1, Key(0))
    world, _ = scripted_world(task, lambda ask: p.question, reward=SpeedTiers())
    (group,) = asyncio.run(perf_rrhf.rollout.run([Request(p, count=5)], world))
    assert len(group.trajectories) == 5
    assert group.trajectories[-1].completion == p.meta["solution"]
    assert group.trajectories[-1].value > group.trajectories[0].value == pytest.approx(0.3)
    # the loss reads it: the samples are as good as each other, so the faster program gives every pair, and it is the best
    rows = tuple(toy_trajectory([1], name=str(i), reward=t.value, source=t.source) for i, t in enumerate(group.trajectories))
    loss, slopes, _ = loss_and_gradient(perf_rrhf.objective, [Group("g", rows)], [-0.5, -0.5, -0.5, -0.5, -0.9])
    assert loss == pytest.approx(4 * 0.4 + 0.9)
    assert slopes == pytest.approx([1, 1, 1, 1, -5])


def test_at_the_limit_it_is_rrhf() -> None:
    base = rrhf.but(setting__temperature=0.8, setting__group=5)
    ours, theirs = (weights_after(r, steps=2)["policy.logits"] for r in (perf_rrhf.but(rollout=Auto()), base))
    assert torch.equal(ours, theirs)
    assert set(changes(rrhf, perf_rrhf)) == {"rollout", "reward", "setting.group", "setting.temperature"}
    check_micro_batches(perf_rrhf)
