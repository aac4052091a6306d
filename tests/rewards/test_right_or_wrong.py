from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.rewards.right_or_wrong import RightOrWrong
from gradus.testing.methods import toy_trajectory
from gradus.types import Failed, Frozen, Group, UserError


def judged(reward, earned, calls, fails):
    """The judgement of an episode that earned `earned`, with the tool calls `calls`."""
    trajectory = toy_trajectory([2], reward=None)
    (context,) = trajectory.contexts
    streams = Frozen({**context.streams, "turn": context.tokens[context.chosen] * 0, "valid": context.chosen[context.chosen]})
    context = replace(context, streams=streams, rewards=((1, "environment", earned),) if earned else ())
    episode = trajectory.but(contexts=(context,), links=Frozen(calls=calls) if calls else Frozen(), reward=reward)
    ((judgement,),) = asyncio.run(RightOrWrong(fails).score([Group("g", (episode,))], {}, None))  # type: ignore[arg-type]
    return judgement


@pytest.mark.parametrize(
    ("earned", "calls", "fails", "reward"),
    [
        (1.0, (), 0.5, 1.0),
        (0.0, (), 0.5, -1.0),
        (0.5, (), 0.5, -1.0),
        (1.0, ((0, "python", True), (1, "python", False)), 0.5, 0.5),
        (1.0, ((0, "python", True), (1, "python", False)), 0.0, 1.0),
        (0.0, ((0, "python", False),), 0.5, -1.5),
        (1.0, ((0, "python", True),), 0.5, 1.0),
    ],
)
def test_rewards_by_hand(earned, calls, fails, reward):
    found = judged(None, earned, calls, fails)
    assert found.reward == reward
    assert found.components["verdict"] + found.components["failed_call"] == reward


def test_a_failed_episode_stays_failed():
    assert isinstance(judged(Failed("broken"), 0.0, (), 0.5).reward, Failed)
    with pytest.raises(UserError, match="fails"):
        RightOrWrong(-1.0)
