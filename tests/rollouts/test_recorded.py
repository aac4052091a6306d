"""Recorded transitions are given once and count in no reward."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.rollouts.recorded import Recorded, rewards_to_go, trajectory_of
from gradus.types import Ended, UserError
from gradus.types.parts import Transitions


def some(n: int = 4) -> Transitions:
    rows = np.arange(n, dtype=np.float32)[:, None]
    ends = np.arange(n) == n - 1
    return Transitions({"state": rows}, rows * 0.1, rows[:, 0], {"state": rows + 1}, ends, ends)


def world(transitions) -> SimpleNamespace:
    return SimpleNamespace(task=SimpleNamespace(name="pendulum", transitions=transitions))


def test_they_are_given_once():
    part = Recorded()
    (group,), state = asyncio.run(part.run([], world(some()), part.start()))
    assert group.aside
    assert asyncio.run(part.run([], world(some()), state)) == ([], state)


def test_one_context_holds_all_rows():
    made = trajectory_of(some())
    (context,) = made.contexts
    assert (made.source, made.ended, made.reward) == ("replay", Ended.LENGTH, 6.0)
    assert context.actions == 4
    assert len(context.tokens) == 9
    assert np.concatenate([s.rows for s in context.shown])[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert context.streams["action"].shape == (4, 1)
    assert context.streams["done"].tolist() == [False, False, False, True]


def test_rewards_to_go_by_hand():
    """gamma .5. Rows 0 to 2 terminate: 2, then 1 + .5 x 2 = 2, then 4 + .5 x 2 = 5. Rows 3, 4 are cut off: -1 / (1 - .5) = -2 at the last,
    then 3 - 1 = 2. Row 5 is the last that was recorded: 6 / .5 = 12."""
    rewards = np.array([4.0, 1.0, 2.0, 3.0, -1.0, 6.0])
    done, ended = (np.isin(np.arange(6), rows) for rows in ([2], [2, 4]))
    assert rewards_to_go(rewards, done, ended, gamma=0.5).tolist() == [5, 2, 2, 2, -2, 12]
    assert rewards_to_go(rewards, done, ended, gamma=0.0).tolist() == rewards.tolist()
    # a step penalty to the end of a cut episode is r / (1 - gamma) at every row, as in the release of Cal-QL for sparse rewards
    assert rewards_to_go(np.full(3, -1.0), np.zeros(3, bool), np.array([False, False, True]), gamma=0.99) == pytest.approx([-100.0] * 3)


def test_rows_have_rewards_to_go_if_a_discount_is_given():
    assert (Recorded().gives, Recorded(gamma=0.5).gives) == ({"transitions"}, {"transitions", "to_go"})
    (group,), _ = asyncio.run(Recorded(gamma=0.5).run([], world(some()), Recorded().start()))
    assert group.trajectories[0].stream("to_go").tolist() == [1.375, 2.75, 3.5, 3.0]  # r = 0 1 2 3, the last terminates
    assert "to_go" not in trajectory_of(some()).contexts[0].streams
    with pytest.raises(UserError, match=r"gamma is 1.0; it must lie in \[0, 1\)"):
        Recorded(gamma=1.0)


def test_a_task_without_transitions_is_refused():
    with pytest.raises(UserError, match="has no recorded transitions; add transitions to the task"):
        asyncio.run(Recorded().run([], world(None), Recorded().start()))
