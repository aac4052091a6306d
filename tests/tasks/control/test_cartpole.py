"""CartPole moves as gymnasium's does."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.tasks.control.cartpole import CartPole, cartpole, moved
from gradus.types import Key


def test_one_step_by_hand():
    """From rest, pushed right: 10 / 1.1 = 9.0909;

    angular = -9.0909 / (0.5 (4/3 - 0.1/1.1)) = -14.634; linear = 9.0909 + 0.05 x 14.634 / 1.1 = 9.7561.
    """
    after, reward, over = moved(np.zeros(4), 1)
    assert after == pytest.approx([0.0, 0.02 * 9.75609756, 0.0, -0.02 * 14.6341463], abs=1e-8)
    assert (reward, over) == (1.0, False)


def test_it_moves_as_gymnasium_does():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("CartPole-v1").unwrapped
    for start in range(5):
        env.reset(seed=start)
        state = np.array(env.state, np.float64)
        for action in (Key(start).uniform(200) > 0.5).astype(int):
            shown, reward, over, _, _ = env.step(int(action))
            state, mine, mine_over = moved(state, int(action))
            assert np.abs(state - np.array(env.state)).max() <= 1e-12
            assert (reward, over) == (mine, mine_over)
            assert np.array_equal(state.astype(np.float32), shown)
            if over:
                break


def test_an_episode_ends_is_cut_and_can_be_put_back():
    async def played():
        task = cartpole()
        (problem,) = task.source.draw([3], None, Key())
        episode = CartPole(limit=5).start(problem, Key(1), None)
        assert np.abs(episode.first.observation["state"]).max() < 0.05
        turns = [await episode.step("left") for _ in range(2)]
        snapshot, copy = episode.snapshot(), episode.fork(Key())
        last = [await episode.step(0) for _ in range(3)]
        assert [t.truncated for t in (*turns, *last)] == [False] * 4 + [True]
        assert not any(t.terminated for t in last)
        other = CartPole(limit=5).start(problem, Key(2), None)
        other.restore(snapshot)
        for again in (other, copy):
            assert np.array_equal((await again.step(0)).observation["state"], last[0].observation["state"])
        wrong = await CartPole().start(problem, Key(1), None).step("up")
        assert not wrong.valid
        assert wrong.reward == 0.0
        falling = CartPole().start(problem, Key(1), None)
        steps = 0
        while not (turn := await falling.step(1)).terminated:
            steps += 1
        assert steps < 20
        assert turn.reward == 1.0

    asyncio.run(played())
