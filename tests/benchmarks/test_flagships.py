"""The flagships: each task has enough held-out problems, their worked solutions are right, and the bounds leave room to learn."""

from __future__ import annotations

import pytest

from benchmarks.flagships import ABOVE, BELOW, FLAGSHIPS, PROBLEMS
from gradus.policies.tiny import folder
from gradus.recipe.registry import recipe
from gradus.training.plan import load_task
from gradus.types import Key


@pytest.mark.parametrize("name", FLAGSHIPS)
def test_a_flagship_can_be_run(name: str) -> None:
    one = FLAGSHIPS[name]()
    task = load_task(one.task, dict(one.options))
    held = task.held_out.draw(range(PROBLEMS), task.level, Key(0))  # type: ignore[union-attr]
    assert len({p.id for p in held}) == PROBLEMS
    assert task.verify is None or all(task.verify(p, p.meta["solution"]) == 1.0 for p in held[:20])
    assert folder(one.model).exists()
    assert recipe(one.recipe).but(setting__learning_rate=one.rate, **one.changes)
    assert 0 < BELOW < ABOVE < 1
