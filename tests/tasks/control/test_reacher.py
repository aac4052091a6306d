"""Reacher: the arm by hand, chunks that stop at the touch, starts that a group shares, pictures."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.tasks.control.reacher import FAR, LEVELS, LIMIT, NEAR, TURN, Reacher, fingertip, moved, pictured, pixel, reacher, shown
from gradus.types import Frozen, Key, Problem, UserError


def problem(start, touch=0.1):
    return Problem("p", "reacher", meta=Frozen(start=start, touch=touch))


def play(environment, start, *chunks, touch=0.1):
    async def turns():
        episode = environment.start(problem(start, touch), Key(), None)
        return [await episode.step(chunk) for chunk in chunks]

    return asyncio.run(turns())


def test_the_fingertip_by_hand():
    assert fingertip(np.array([0, 0])) == pytest.approx([1, 0])
    assert fingertip(np.array([np.pi / 2, -np.pi / 2])) == pytest.approx([0.5, 0.5])
    assert fingertip(np.array([0, np.pi])) == pytest.approx([0, 0], abs=1e-12)


def test_one_step_by_hand():
    after = moved(np.array([0.0, 0.0, 0.0, 1.0, 0.0]), np.array([0.1, 9.0]), 0.1)
    assert after.tolist() == [0.1, TURN, 0.0, 1.0, 0.0]
    touching = moved(np.array([0.0, 0.0, 1.0, 0.05, 0.0]), np.zeros(2), 0.1)
    assert touching[4] == 1.0
    assert moved(np.array([0.0, 0.0, 0.0, 1.0, 1.0]), np.zeros(2), 0.1)[4] == 1.0  # the mark stays


def test_a_chunk_stops_at_the_touch_and_says_how_many_steps_were_executed():
    """Three steps of 0.1 bring the straight arm from the angle 0 to a target at 0.3; the fourth is not executed."""
    start = (0.0, 0.0, np.cos(0.3), np.sin(0.3))
    (turn,) = play(Reacher(), start, np.array([[0.1, 0.0]] * 4), touch=0.01)
    assert (turn.reward, turn.steps, turn.terminated, turn.truncated) == (1.0, (0.0, 0.0, 1.0), True, False)
    on = play(Reacher(ends=False, limit=8), start, *[np.array([[0.1, 0.0]] * 4)] * 2, touch=0.01)
    assert [t.steps for t in on] == [(0.0, 0.0, 1.0, 0.0), (0.0,) * 4]  # the touch earns once, also if the arm leaves and comes back
    assert [(t.terminated, t.truncated) for t in on] == [(False, False), (False, True)]


def test_single_steps_and_actions_of_another_size():
    single, wrong = play(Reacher(chunk=1), (0.0, 0.0, 0.0, 1.0), np.array([[0.1, 0.2]]), np.zeros(3))
    assert single.steps == ()
    assert single.observation["state"][:2] == pytest.approx(np.cos([0.1, 0.2]))
    assert (wrong.valid, wrong.reward) == (False, 0.0)
    short, cut = play(Reacher(limit=5), (0.0, 0.0, 0.0, 1.0), "left", np.zeros((4, 2)))
    assert not short.valid
    assert (cut.truncated, len(cut.steps)) == (True, 4)  # the illegal chunk cost one of five steps


def test_starts_are_reachable_apart_and_shared_by_a_group():
    task = reacher(level=3)
    found = task.source.draw(list(range(50)), 3, Key(4))
    assert len({p.meta["start"] for p in found}) == 50
    for p in found:
        state = np.array(p.meta["start"])
        assert NEAR <= np.hypot(*(fingertip(state) - state[2:])) <= FAR
        assert np.hypot(*state[2:]) <= 1
        assert p.meta["touch"] == LEVELS[3][0]
    held_out = {p.meta["start"] for p in task.held_out.draw(list(range(50)), 3, Key(4))}
    assert not held_out & {p.meta["start"] for p in found}
    first, second = (task.environment.start(found[0], Key(k), None).first.observation["state"] for k in (1, 2))
    assert np.array_equal(first, second)
    assert task.acting.chunk == 4
    assert task.environment.limit == LIMIT
    with pytest.raises(UserError, match="levels 1 to 3"):
        task.source.draw([0], 4, Key())


def test_observations():
    state = np.array([0.3, 0.4, 0.1, -0.2, 0.0])
    seen = shown(state)["state"]
    assert seen.dtype == np.float32
    assert seen[4:6] + seen[6:] == pytest.approx([0.1, -0.2], abs=1e-6)
    assert seen[:4] == pytest.approx([*np.cos([0.3, 0.4]), *np.sin([0.3, 0.4])], abs=1e-6)
    picture = pictured(state)["picture"]
    assert (picture.shape, picture.dtype) == ((24, 24, 3), np.uint8)
    assert picture[(*pixel(fingertip(state)), 0)] == picture[(*pixel(state[2:4]), 1)] == 255
    assert pixel(np.array([-1.0, 1.0])) == (1, 1)  # the top left
    assert Reacher(show="image").start(problem((0.3, 0.4, 0.1, -0.2)), Key(), None).first.observation["picture"].shape == (24, 24, 3)
    with pytest.raises(UserError, match=r'"imag".*image'):
        Reacher(show="imag")
