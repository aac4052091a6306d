"""Omni-Thinker: both orders by hand, backward transfer, constants per task, the order of tasks, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.omni_thinker import backward_transfer, in_order, omni_thinker, order
from gradus.recipe.core import changes
from gradus.rewards.by_task import ByTask
from gradus.rewards.judged import JudgedPairs
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, scripted_world, toy_group, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem


@dataclass(frozen=True)
class Scripted:
    """A judge that gives these verdicts in turn."""

    verdicts: tuple[float, ...]

    async def decide(self, form, cases: Sequence, world) -> list:
        return [(v,) for v, _ in zip(self.verdicts, cases, strict=True)]


def judged(*verdicts: float) -> list[float]:
    reward = ByTask(Frozen(stories=JudgedPairs(judge=Scripted(verdicts), against="reference", both_orders=True)))
    problem = Problem("p", "stories", text="q", answer="a tale")
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=problem, completion="text") for i in range(len(verdicts) // 2))
    world, _ = scripted_world(TOY, lambda ask: "")
    (found,) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return [j.reward for j in found]  # type: ignore[misc]


def test_both_orders_by_hand() -> None:
    # a verdict is the share of the first text; in the second order the answer comes second
    assert judged(1.0, 0.5) == [0.75]  # a win and a tie
    assert judged(0.0, 1.0) == [0.0]  # a loss in both
    assert judged(1.0, 1.0) == [0.5]  # a judge that prefers the first place
    assert judged(1.0, 0.0, 0.5, 0.5) == [1.0, 0.5]


def test_backward_transfer_by_hand() -> None:
    assert backward_transfer([[60, 0, 0], [55, 50, 0], [50, 48, 70]]) == pytest.approx(((50 - 60) + (48 - 50)) / 2)
    assert backward_transfer([[60]]) == 0.0


def test_the_order_by_transfers() -> None:
    # sums of both transfers: task 0 has 2 - 6, task 1 has -1 - 2, task 2 has -8 + 1
    assert order([[0, 1, 1], [-1, 0, 0], [-5, -3, 0]]) == [1, 0, 2]
    assert order([[0, 0, 0], [4, 0, 0], [0, -1, 0]]) == [0, 1, 2]  # 4, 4 - 1, -1: both directions count
    assert order([[9, 2], [0, 9]]) == [0, 1]
    stages = in_order(["code", "arithmetic"], steps=7)
    assert [(name, stage.task, stage.until.count) for name, stage in stages.stages.items()] == [("stage_1", "code", 7), ("stage_2", "arithmetic", 7)]


def test_a_constant_per_task_changes_no_advantage() -> None:
    one, other = toy_group(1, 0, 0, key="a"), toy_group(0.5, 0.25, key="b")
    shifted = toy_group(1.5, 1.25, key="b")
    assert advantages_of(omni_thinker.credit, one, other)[0] == advantages_of(omni_thinker.credit, one, shifted)[0]
    assert advantages_of(omni_thinker.credit, other) == advantages_of(omni_thinker.credit, shifted)


def test_on_a_task_with_a_rule_it_is_grpo() -> None:
    bare = omni_thinker.but(reward=ByTask(Frozen()))
    base = grpo.but(objective__kl__coefficient=0.001)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (bare, base)))
    assert {"reward", "players.judge", "objective.kl.coefficient"} <= set(changes(grpo, omni_thinker))
    assert dict(omni_thinker.reward.weights) == {"tags": 0.1}
    assert omni_thinker.reward.parts["by_task"].parts["stories"] == JudgedPairs(against="reference", both_orders=True)
    check_micro_batches(omni_thinker)
