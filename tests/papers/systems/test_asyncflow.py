"""AsyncFlow: GRPO at S = 0, the ages of samples, the recurrence of its docstring on a simulated clock."""

from __future__ import annotations

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.asyncflow import asyncflow
from gradus.rollouts.streamed import Streamed
from gradus.simulation.rates import Affine, Rates
from gradus.simulation.schedules import Model
from gradus.simulation.work import Item
from gradus.testing.methods import check_different_update, check_same_update, train_toy
from gradus.types.systems import Ahead


def seconds(system, generation=10, update=10, steps=10):
    """The seconds of a run whose rollouts and updates take as long."""
    return Model(system, Rates(Affine(1.0), update_start=update), [Item(0, (generation,))], 1, steps).run().ends[-1]


def test_the_times_of_the_docstring():
    assert [seconds(system) for system in (None, asyncflow.system, Ahead(2))] == [200, 110, 110]


@pytest.mark.parametrize(("generation", "update"), [(10, 4), (4, 10)])
def test_one_role_never_waits_with_one_step_ahead(generation, update):
    assert seconds(asyncflow.system, generation, update) == 10 * 10 + 4
    assert seconds(None, generation, update) == 10 * 14


def test_without_steps_ahead_it_is_grpo():
    check_same_update(asyncflow.but(system=None), grpo, steps=3)
    check_different_update(asyncflow, grpo, steps=3)


def test_samples_are_at_most_one_update_old():
    seen = []
    train_toy(asyncflow, steps=5, watch=lambda run, row, groups: seen.append({int(v) for g in groups for t in g.trajectories for v in t.contexts[0].versions}))
    assert seen == [{0}, {0}, {1}, {2}, {3}]  # step t trains on weights after t - 1 updates


def test_the_setting():
    assert (asyncflow.system, asyncflow.rollout) == (Ahead(1), Streamed(micro_batch=4))
