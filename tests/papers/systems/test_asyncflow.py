"""AsyncFlow: GRPO at S = 0, the ages of samples, the recurrence of its docstring on a simulated clock."""

from __future__ import annotations

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.asyncflow import asyncflow
from gradus.rollouts.streamed import Streamed
from gradus.simulation.rates import Affine, Rates
from gradus.simulation.schedules import Model
from gradus.simulation.work import Item
from gradus.testing.methods import check_different_update, check_same_update, steps_of, train_toy
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


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_the_recurrence_of_the_docstring(ahead):
    """The ends of updates on a clock, for rollouts and updates of unequal times."""
    times = [3, 20, 1, 1, 14, 2, 9, 9, 1, 17]
    updates = [4 + 0.5 * n for n in times]
    sampled, updated = [0.0], [0.0]  # G and U, from the one before the first
    for k, (generation, update) in enumerate(zip(times, updates, strict=True)):
        begins = max(sampled[-1], updated[k - ahead] if k >= ahead else 0.0)
        sampled.append(begins + generation)
        updated.append(max(sampled[-1], updated[-1]) + update)
    found = Model(Ahead(ahead) if ahead else None, Rates(Affine(1.0), update=0.5, update_start=4), [Item(0, (n,)) for n in times], 1, len(times)).run()
    assert found.ends == pytest.approx(updated[1:])


def test_the_age_of_samples_is_corrected_only_on_request():
    plain, corrected = (
        [metrics["ratio"] for metrics, _ in steps_of(recipe, steps=4, learning_rate=0.5)]
        for recipe in (asyncflow, asyncflow.but(objective__policy__ratio__against="behaviour"))
    )
    assert plain == [1.0] * 4
    assert corrected[0] == pytest.approx(1.0, abs=1e-6)
    assert all(abs(ratio - 1) > 1e-4 for ratio in corrected[1:])


def test_without_steps_ahead_it_is_grpo():
    check_same_update(asyncflow.but(system=None), grpo, steps=3)
    check_different_update(asyncflow, grpo, steps=3)


def test_samples_are_at_most_one_update_old():
    seen = []
    train_toy(asyncflow, steps=5, watch=lambda run, row, groups: seen.append({int(v) for g in groups for t in g.trajectories for v in t.contexts[0].versions}))
    assert seen == [{0}, {0}, {1}, {2}, {3}]  # step t trains on weights after t - 1 updates


def test_the_setting():
    assert (asyncflow.system, asyncflow.rollout) == (Ahead(1), Streamed(micro_batch=4))
