"""Another update for the first steps."""

from __future__ import annotations

from gradus.papers.bases.grpo import grpo
from gradus.recipe import changes
from gradus.schedules.first_steps import FirstSteps
from gradus.updates.minibatches import Minibatches


def test_the_update_changes_back_after_the_first_steps():
    schedule = FirstSteps(2, Minibatches(epochs=3))
    assert [changes(grpo, schedule.at(step, grpo)) for step in range(3)] == [{"update.epochs": 3}] * 2 + [{}]
    assert FirstSteps(0, Minibatches(epochs=3)).at(0, grpo) is grpo
    assert FirstSteps().at(0, grpo) is grpo
