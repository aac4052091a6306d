"""Phases by step: which is which, values, events, repetition."""

from __future__ import annotations

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.recipe.scheduled import check_schedule
from gradus.recipe.serialise import from_json, to_json
from gradus.schedules.phases import Phase, Phases
from gradus.testing.methods import check_resumes, train_toy
from gradus.types import Frozen, UserError
from gradus.types.moments import CopyWeights, Moment, ResetOptimizer

SHORT, LONG = Phase(2, Frozen({"setting.max_tokens": 3})), Phase(1, Frozen({"setting.max_tokens": 5, "optimizer.lr": 0.1}), (ResetOptimizer(),))


def test_which_phase_a_step_is_in() -> None:
    once = Phases((SHORT, LONG))
    assert [once.phase(step) for step in range(5)] == [(SHORT, True), (SHORT, False), (LONG, True), (LONG, False), (LONG, False)]
    again = Phases((SHORT, LONG), repeat=True)
    assert [again.phase(step) for step in range(5)] == [(SHORT, True), (SHORT, False), (LONG, True), (SHORT, True), (SHORT, False)]


def test_values_and_events() -> None:
    schedule = Phases((SHORT, LONG))
    found = [schedule.at(Moment(step, 9), grpo) for step in range(4)]
    assert [changes(grpo, recipe) for recipe, _ in found] == [{"setting.max_tokens": 3}] * 2 + [{"optimizer.lr": 0.1, "setting.max_tokens": 5}] * 2
    assert [events for _, events in found] == [(), (), (ResetOptimizer(),), ()]
    assert from_json(to_json(schedule)) == schedule


def test_a_run_has_phases_and_resumes() -> None:
    moving = Phases((Phase(2), Phase(2, Frozen({"optimizer.lr": 0.2}), (CopyWeights("policy", "reference"),))), repeat=True)
    recipe = grpo.but(schedule=moving)
    run = train_toy(recipe, steps=6, warmup=0)
    assert [row["learning_rate"] for row in run.metrics] == [0.05, 0.05, 0.2, 0.2, 0.05, 0.05]
    assert [row["step"] for row in run.metrics if "event/copy_weights/reference" in row] == [2]
    check_resumes(recipe, steps=5, after=3)


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"Phases.phases is empty"):
        Phases(())
    with pytest.raises(UserError, match=r"Phase.steps is 0"):
        Phase(0)
    with pytest.raises(UserError, match=r"sets setting.max_tokens to 0: Setting.max_tokens is 0"):
        check_schedule(grpo.but(schedule=Phases((Phase(2, Frozen({"setting.max_tokens": 0})),))))
    with pytest.raises(UserError, match="nobody"):
        check_schedule(grpo.but(schedule=Phases((Phase(2, events=(ResetOptimizer("nobody"),)),))))
