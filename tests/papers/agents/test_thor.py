"""THOR: the loss by hand, both levels in one update, the stages, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch

from gradus.objectives.trust import Clip
from gradus.papers.agents.thor import PROGRAMS, thor
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.filters import Informative
from gradus.tasks.code.python_tool import python_tool
from gradus.testing.methods import check_different_update, check_same_update, scripted_world
from gradus.tools.calculator import Calculator
from gradus.types import Frozen, Key, Request
from gradus.types.moments import Steps

PLAIN = thor.but(
    environment=None, rollout=Auto(), reward=Verified(), schedule=ConstantSchedule(), setting__prompts=grpo.setting.prompts, setting__group=grpo.setting.group,
)  # fmt: skip


def test_the_loss_of_a_token_by_hand() -> None:
    trust = thor.objective["policy"].trust
    ratios, advantages = torch.tensor([1.5, 0.5, 5.0, 0.5, 1.5]), torch.tensor([1.0, 1.0, -1.0, -1.0, -1.0])
    losses, _ = trust.losses(ratios.log(), advantages, None)
    assert losses.tolist() == pytest.approx([-1.28, -0.5, 3.0, 0.8, 1.5])


def test_without_nll_and_ceiling_it_is_grpo_on_mixed_groups() -> None:
    base = grpo.but(
        selection=Informative(), objective__kl=None, players__reference=None, update__count=4, objective__policy__trust=Clip(0.2, 0.28),
        objective__policy__average=thor.objective["policy"].average,
    )  # fmt: skip
    check_same_update(PLAIN.but(objective__imitation=None, objective__policy__trust__ceiling=1e6), base)
    check_different_update(PLAIN.but(objective__policy__trust__ceiling=1e6), base)


def test_failed_calls_of_the_task_are_written_again() -> None:
    task = replace(python_tool(1, instruction=False, slips=1.0), environment=replace(PROGRAMS, tools=Frozen(python=Calculator(name="python"))))
    (problem,) = task.source.draw([0], 1, Key(0))
    (_, slip), _, (_, answer) = task.environment.demonstration(problem)
    assert slip.endswith(")\n```\n```output")
    drawn = []

    def speak(ask) -> str:
        drawn.append(ask.request.tags)
        if "fork" in ask.request.tags:
            return "```python\n2\n```\n```output"
        return (slip, answer)[ask.request.tags[-1]]

    world, _ = scripted_world(task, speak, reward=thor.reward)
    (group,) = asyncio.run(thor.rollout.run([Request(problem, 2)], world))
    (tried,) = asyncio.run(world.aside())
    assert (group.rewards.tolist(), tried.rewards.tolist(), tried.aside) == ([1.0, 1.0], [1.0, 1.0], True)
    assert sum("fork" in tags for tags in drawn) == 2


def test_the_first_stage_learns_demonstrations() -> None:
    first, second = thor.schedule.stages.values()
    assert (first.recipe.key, first.until, first.changes["environment"]) == ("sft", Steps(150), thor.environment)
    assert second.recipe is None


def test_numbers_of_the_paper() -> None:
    assert (thor.rollout.cut, thor.rollout.most, thor.setting.group, thor.environment.calls) == (100, 1.0, 16, 5)
    assert thor.objective["imitation"].coefficient == 0.01
    assert {name.split(".")[0] for name in changes(grpo, thor)} >= {"environment", "objective", "rollout", "selection", "schedule"}
