"""The return of an episode and the price of illegal actions, by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np

from gradus.rewards.environment import EnvironmentReturn, invalid_actions
from gradus.testing.methods import scripted_context
from gradus.types import NOT_APPLICABLE, Context, Failed, Frozen, Group, Problem, Trajectory
from gradus.types.parts import Judgement


def context(turns: list[int], valid: list[int], rewards: tuple[tuple[int, str, float], ...]) -> Context:
    streams = {"turn": np.array(turns, np.int32), "state": np.array(turns, np.int64), "valid": np.array(valid, bool)}
    return replace(scripted_context("x" * len(turns)), streams=Frozen(streams), rewards=rewards)


TWO = (
    context([0, 0, 1, 2, 2], [1, 1, 0, 0, 0], ((1, "environment", 0.5), (4, "other", 9.0))),
    context([3, 3], [0, 0], ((1, "environment", 0.25),)),
)


def score(trajectory: Trajectory, reward: EnvironmentReturn) -> Judgement:
    (row,) = asyncio.run(reward.score([Group("g", (trajectory,))], {}, None))  # type: ignore[arg-type]
    return row[0]


def test_return_by_hand() -> None:
    judgement = score(Trajectory("t", Problem("p", "t"), TWO), EnvironmentReturn())
    assert judgement.reward == 0.75  # 0.5 + 0.25; other components are not the environment's
    assert dict(judgement.components) == {"environment": 0.75}
    assert judgement.steps == ()


def test_illegal_actions_end_where_their_turns_end() -> None:
    assert invalid_actions(Trajectory("t", Problem("p", "t"), TWO)) == [(0, 2), (0, 4), (1, 1)]  # turns 1, 2 and 3


def test_a_turn_of_two_contexts_is_priced_in_each() -> None:
    halves = (context([0], [0], ()), context([0], [0], ()))
    assert invalid_actions(Trajectory("t", Problem("p", "t"), halves)) == [(0, 0), (1, 0)]


def test_failures_stay_failures_and_one_turn_is_not_applicable() -> None:
    broken = Trajectory("t", Problem("p", "t"), TWO, reward=Failed("lost"))
    assert score(broken, EnvironmentReturn()).reward == Failed("lost")
    assert score(Trajectory("t", Problem("p", "t"), (scripted_context("x"),)), EnvironmentReturn()).reward is NOT_APPLICABLE
