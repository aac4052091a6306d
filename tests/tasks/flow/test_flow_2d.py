"""The task of points in the plane: conditions, the split, the reward."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradus.policies.flow import FlowModel
from gradus.tasks.flow.flow_2d import ASIDE, MODES, RADIUS, centre, flow_2d, near
from gradus.testing.methods import flow_ask
from gradus.types import Context, Frozen, Key, Trajectory
from gradus.types.samplers import Drawing, Ode

TASK = flow_2d()


def at(problem, *points):
    tokens = np.zeros(len(points), np.int32)
    context = Context(tokens, np.ones(len(points), bool), streams=Frozen(sample=np.array(points, np.float32)))
    return Trajectory("t", problem, (context,))


def test_the_reward_by_hand():
    (problem,) = TASK.source.draw([0], None, Key(0))
    x, y = problem.answer
    assert near(at(problem, (x, y))) == pytest.approx(1.0)
    # at distance 1/2 exp(-1/2) = 0.6065, at distance 1 exp(-2) = 0.1353; the last row is the finished sample
    assert near(at(problem, (x + 0.5, y))) == pytest.approx(math.exp(-0.5), rel=1e-6)
    assert near(at(problem, (x, y), (x + 0.6, y - 0.8))) == pytest.approx(math.exp(-2), rel=1e-6)


def test_a_direction_names_the_nearest_mode():
    for problem in TASK.source.draw(range(200), None, Key(1)):
        c, s = problem.meta["condition"]
        assert c * c + s * s == pytest.approx(1)
        likest = max(range(MODES), key=lambda k: c * centre(k)[0] + s * centre(k)[1])
        assert problem.answer == list(centre(likest))
        assert c * problem.answer[0] + s * problem.answer[1] >= RADIUS * math.cos(math.radians(ASIDE)) - 1e-9


def test_held_out_directions_are_never_trained_on():
    held = {p.meta["condition"] for p in TASK.held_out.draw(range(256), None, Key(0))}
    assert len(held) == 256
    assert not held & {p.meta["condition"] for p in TASK.source.draw(range(2000), None, Key(2))}


def test_the_built_in_model_earns_a_middling_reward():
    problems = TASK.held_out.draw(range(256), None, Key(0))
    model = FlowModel.load()
    contexts = model.act([flow_ask(Drawing(Ode(40)), p.id, 0, p.meta["condition"]) for p in problems])
    rewards = [near(Trajectory("t", p, (c,))) for p, c in zip(problems, contexts, strict=True)]
    assert 0.25 < np.mean(rewards) < 0.5
