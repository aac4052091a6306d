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
