"""Recorded transitions are given once and count in no reward."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.rollouts.recorded import Recorded, trajectory_of
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


def test_a_task_without_transitions_is_refused():
    with pytest.raises(UserError, match="has no recorded transitions to learn from"):
        asyncio.run(Recorded().run([], world(None), Recorded().start()))
