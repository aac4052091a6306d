"""Episodes of vector worlds: a step that the space does not have costs a step and moves nothing."""

from __future__ import annotations

import asyncio

import numpy as np

from gradus.tasks.control.episodes import VectorEpisode
from gradus.types import Key
from gradus.types.environments import Forkable, Restorable


def test_an_illegal_action_moves_nothing():
    episode = VectorEpisode(np.zeros(1), lambda s, a: (s + a, 1.0, s[0] > 1), lambda s: {"state": s}, lambda a: None if a == "?" else a, 3)
    turn = asyncio.run(episode.step("?"))
    assert not turn.valid
    assert turn.reward == 0.0
    assert turn.observation["state"].tolist() == [0.0]
    assert episode.steps == 1
    assert isinstance(episode, Forkable)
    assert isinstance(episode, Restorable)
    copy = episode.fork(Key())
    asyncio.run(episode.step(1.0))
    assert copy.state.tolist() == [0.0]
    assert copy.steps == 1
    assert episode.state.tolist() == [1.0]


def test_a_chunk_is_executed_step_by_step_until_the_end_or_the_limit():
    def episode(limit):
        return VectorEpisode(np.zeros(1), lambda s, a: (s + a, float(a), bool(s[0] + a > 5)), lambda s: {"state": s}, lambda a: a, limit, chunk=3)

    over = asyncio.run(episode(9).step([2.0, 4.0, 1.0]))
    assert (over.reward, over.steps, over.terminated, over.truncated) == (6.0, (2.0, 4.0), True, False)
    cut = episode(2)
    turn = asyncio.run(cut.step([1.0, 1.0, 1.0]))
    assert (turn.reward, turn.steps, turn.terminated, turn.truncated) == (2.0, (1.0, 1.0), False, True)
    copy = episode(9).fork(Key())
    assert asyncio.run(copy.step([1.0, 1.0, 1.0])).steps == (1.0,) * 3
    none = asyncio.run(episode(9).step(None))
    assert (none.valid, none.reward, none.steps) == (False, 0.0, ())
