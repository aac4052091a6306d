"""The return of an episode and the price of illegal actions, by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.rewards.environment import EnvironmentReturn, invalid_actions
from gradus.testing.methods import scripted_context
from gradus.training.world import judged
from gradus.types import NOT_APPLICABLE, Context, Failed, Frozen, Group, Problem, Trajectory, UserError
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


def test_invalid_actions_cost_their_price_where_they_end() -> None:
    trajectory = Trajectory("t", Problem("p", "t"), TWO)
    assert invalid_actions(trajectory) == [(0, 2), (0, 4), (1, 1)]  # turns 1, 2 and 3
    judgement = score(trajectory, EnvironmentReturn(invalid_penalty=0.25))
    assert judgement.reward == 0.0  # 0.75 - 3 x 0.25
    assert dict(judgement.components) == {"environment": 0.75, "invalid": -0.75}
    assert judgement.steps == ((0, 2, "invalid", -0.25), (0, 4, "invalid", -0.25), (1, 1, "invalid", -0.25))
    after = judged(trajectory, judgement)
    assert sum(value for c in after.contexts for _, name, value in c.rewards if name in ("environment", "invalid")) == after.value


def test_a_turn_of_two_contexts_is_priced_in_each() -> None:
    halves = (context([0], [0], ()), context([0], [0], ()))
    assert invalid_actions(Trajectory("t", Problem("p", "t"), halves)) == [(0, 0), (1, 0)]


def test_a_component_of_price_zero_is_there_when_nothing_was_invalid() -> None:
    fine = Trajectory("t", Problem("p", "t"), (context([0], [1], ((0, "environment", 1.0),)),))
    assert dict(score(fine, EnvironmentReturn(invalid_penalty=0.25)).components) == {"environment": 1.0, "invalid": 0.0}


def test_failures_stay_failures_and_one_turn_is_not_applicable() -> None:
    broken = Trajectory("t", Problem("p", "t"), TWO, reward=Failed("lost"))
    assert score(broken, EnvironmentReturn()).reward == Failed("lost")
    assert score(Trajectory("t", Problem("p", "t"), (scripted_context("x"),)), EnvironmentReturn()).reward is NOT_APPLICABLE


def test_a_negative_penalty_is_refused() -> None:
    with pytest.raises(UserError, match=r"`invalid_penalty` is -0\.1"):
        EnvironmentReturn(invalid_penalty=-0.1)
