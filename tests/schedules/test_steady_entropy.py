"""The temperature by hand, its target and its bounds, and a step without an update."""

from __future__ import annotations

import math

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.schedules.steady_entropy import SteadyEntropy, annealed, steered
from gradus.types import UserError
from gradus.types.moments import Moment

RECIPE = grpo.but(setting__temperature=1.0)


def test_the_temperature_by_hand():
    # ln 32 + ln ln 32 = 3.4657 + 1.2429 = 4.7086; ln 2 / 4.7086 = .1472
    assert steered(1.0, 0.5, 1.0, 32) == pytest.approx(1.1472, abs=5e-5)
    assert steered(1.0, 2.0, 1.0, 32) == pytest.approx(0.8528, abs=5e-5)
    assert steered(1.3, 0.7, 0.7, 32) == 1.3
    assert steered(2.0, 0.5, 1.0, 32) == pytest.approx(2 * (1 + 2 * math.log(2) / 4.7086), abs=1e-4)


def test_the_target_falls_along_a_cosine():
    assert [annealed(t, 0.9) for t in (0.0, 0.5, 1.0)] == [1.0, pytest.approx(0.95), 0.9]
    part = SteadyEntropy()
    assert [part.ended(step, 10) for step in (0, 6, 7, 8, 10)] == [0, 0, 0.25, 0.5, 1]
    assert SteadyEntropy(end=0.0).ended(10, 10) == 0


def temperatures(entropies, steps=100, **options):
    part = SteadyEntropy(vocabulary=32, **options)
    state, out = part.start(), []
    for step, last in enumerate([{}, *({"entropy": h, "learning_rate": 1.0} for h in entropies)]):
        recipe, events, state = part.at(Moment(step, steps, last=last), RECIPE, state)
        assert events == ()
        out.append(recipe.setting.temperature)
    return out


def test_the_first_entropy_is_the_target():
    found = temperatures([0.6, 0.3, 0.6, 1.2])
    up = 1.0 + math.log(2) / 4.7086
    assert found == pytest.approx([1.0, 1.0, up, up, up * (1 - up * math.log(2) / 4.7086)], abs=1e-4)


def test_the_target_of_the_end():
    # of 10 steps the last four are the end: the temperature after step 8 knows the target after 7 of them, t = 1/4
    found = temperatures([0.6] * 8, steps=10)
    assert found[:8] == [1.0] * 8
    d = 0.1 * 0.5 * (1 + math.cos(math.pi / 4)) + 0.9
    assert found[8] == pytest.approx(1 + math.log(d) / 4.7086, abs=1e-5)


def test_bounds_and_steps_without_an_update():
    assert temperatures([1.0, 1e-30], high=2.0)[-1] == 2.0
    assert temperatures([1e-3, 1e6], low=0.5)[-1] == 0.5
    assert temperatures([1.0, 0.0])[-1] == 1.0
    part, state = SteadyEntropy(), {"temperature": 1.5, "first": 0.4}
    recipe, _, after = part.at(Moment(3, 9, last={"reward": 1.0, "entropy": 0.1}), RECIPE, state)
    assert (recipe.setting.temperature, after) == (1.5, state)


def test_wrong_numbers_are_refused():
    with pytest.raises(UserError, match="set `low` to"):
        SteadyEntropy(low=2.0, high=1.0)
    with pytest.raises(UserError, match="it must"):
        SteadyEntropy(vocabulary=2)
