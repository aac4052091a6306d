"""The choice by hand, the correlation of predictions and rewards, and what is refused."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.curricula.predicted import PredictedRates
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods import ToySource, toy_group
from gradus.types import Key, UserError, prompt_context
from gradus.types.signals import Value


def world(values, notes=None):
    """A world in which the value of the n-th candidate is `values[n]`."""
    notes = {} if notes is None else notes

    async def score(contexts, want, player="policy"):
        assert (want, player) == (Value(), "critic")
        assert [c.actions for c in contexts] == [1] * len(values)
        return [np.array([v]) for v in values]

    return SimpleNamespace(
        seed=Key(1),
        task=SimpleNamespace(level=None, system=None),
        group=4,
        note=lambda name, value: notes.setdefault(name, []).append(value),
        opening=lambda prompt, player: prompt_context([1, 2, 3]),
        score=score,
    )


def test_the_choice_by_hand():
    part, notes = PredictedRates(factor=2), {}
    requests, state = asyncio.run(part.choose(ToySource(), 2, world([0.1, 0.45, 0.9, 0.6], notes), part.start()))
    names = [p.id for p in ToySource().draw(range(4), None, Key(1).fold("problems"))]
    assert [r.problem.id for r in requests] == [names[1], names[3]]
    assert [r.count for r in requests] == [4, 4]
    assert state == {"drawn": 4, "predicted": {names[1]: 0.45, names[3]: 0.6}}
    assert notes == {"predicted_rate": [0.45, 0.6]}


def test_the_correlation_of_predictions_and_rewards():
    part, notes = PredictedRates(), {}
    groups = [toy_group(1, 1), toy_group(1, 0), toy_group(0, 0)]
    named = [
        g.but(trajectories=tuple(t.but(problem=ToySource().draw([i], None, Key())[0]) for t in g.trajectories))
        for i, g in enumerate(groups)
    ]
    predicted = {g.trajectories[0].problem.id: v for g, v in zip(named, (0.8, 0.9, 0.1), strict=True)}
    state = part.learn(named[:2], named[2:], world([], notes), {"drawn": 8, "predicted": predicted})
    assert state == {"drawn": 8, "predicted": {}}
    assert notes == {"rank_correlation": [pytest.approx(0.5)]}


def test_wrong_use_is_refused():
    with pytest.raises(UserError, match="it must"):
        PredictedRates(factor=0)
    with pytest.raises(UserError, match="takes numbers as actions"):
        PredictedRates().check_task(flow_2d())
