"""Pendulum moves as gymnasium's does."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.tasks.control.pendulum import Pendulum, moved, pendulum
from gradus.types import Key, UserError


def test_one_step_by_hand():
    """Angle 0, speed 1, torque 2: speed 1 + 3 x 2 x 0.05 = 1.3, angle 0.065; cost 0.1 + 0.004."""
    after, reward, over = moved(np.array([0.0, 1.0]), np.array([5.0]))
    assert after == pytest.approx([0.065, 1.3], abs=1e-12)
    assert reward == pytest.approx(-0.104, abs=1e-12)
    assert not over


def test_recorded_turns_are_steps_of_the_world():
    made = pendulum(recorded=20)
    rows = made.transitions
    assert "transitions" in made.provides
    assert len(rows.reward) == 20
    cos, sin, speed = rows.observation["state"][3].astype(float)
    after, reward, _ = moved(np.array([np.arctan2(sin, cos), speed]), rows.action[3])
    assert rows.next["state"][3] == pytest.approx([np.cos(after[0]), np.sin(after[0]), after[1]], abs=1e-6)
    assert rows.reward[3] == pytest.approx(reward, abs=1e-5)
    with pytest.raises(UserError, match=r"--task\.recorded is -1; give a number"):
        pendulum(recorded=-1)


def test_it_moves_as_gymnasium_does():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Pendulum-v1").unwrapped
    for start in range(3):
        env.reset(seed=start)
        state = np.array(env.state, np.float64)
        for torque in Key(start).uniform(200) * 6 - 3:
            _, reward, _, _, _ = env.step(np.array([torque]))
            state, mine, _ = moved(state, np.array([torque]))
            assert np.abs(state - np.array(env.state)).max() <= 1e-12
            assert reward == pytest.approx(mine, abs=1e-12)


def test_an_episode_is_truncated_and_never_terminated():
    async def played():
        (problem,) = pendulum().source.draw([0], None, Key())
        episode = Pendulum(limit=3).start(problem, Key(1), None)
        turns = [await episode.step(np.array([1.0], np.float32)) for _ in range(3)]
        assert [t.truncated for t in turns] == [False, False, True]
        assert not any(t.terminated for t in turns)
        assert turns[0].observation["state"].shape == (3,)
        assert turns[0].observation["state"].dtype == np.float32

    asyncio.run(played())
