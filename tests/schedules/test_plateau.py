"""Events on a plateau: when they come by hand, how often, and what is remembered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.recipe.scheduled import check_schedule
from gradus.schedules.plateau import OnPlateau
from gradus.testing.methods import MemoryCheckpoint, toy_run
from gradus.training.launch import go
from gradus.types import UserError
from gradus.types.moments import CopyWeights, Moment, ResetOptimizer, StopHere

SCORE = "held_out/accuracy"


def fired(schedule: OnPlateau, values: list[float], between: int = 2) -> list[int]:
    """The numbers of the evaluations after which events came; `between` steps stand between two evaluations."""
    state, found = schedule.start(), []
    for step in range(len(values) * between):
        count = step // between + 1
        _, events, state = schedule.at(Moment(step, 99, evaluated={SCORE: values[count - 1]}, evaluations=count), None, state)
        found += [count] if events else []
    return found


@pytest.mark.parametrize(
    ("schedule", "values", "at"),
    [
        # 0.3 is a gain, the second 0.3 and 0.2 are none: two without gain after the fourth; then the best is 0.2, and 0.25 is a gain
        (OnPlateau(evaluations=2), [0.1, 0.3, 0.3, 0.2, 0.25, 0.25, 0.24], [4, 7]),
        (OnPlateau(evaluations=2, most=1), [0.1, 0.3, 0.3, 0.2, 0.25, 0.25, 0.24], [4]),
        (OnPlateau(evaluations=1, gain=0.1), [0.1, 0.15, 0.3, 0.35], [2, 4]),  # 0.15 and 0.35 are gains of less than 0.1
        (OnPlateau(evaluations=1, rises=False), [0.5, 0.4, 0.4, 0.3], [3]),
        (OnPlateau(evaluations=3), [0.1, 0.2, 0.3, 0.4, 0.5], []),
    ],
)
def test_when_events_come(schedule: OnPlateau, values: list[float], at: list[int]) -> None:
    assert fired(schedule, values) == at
    assert fired(schedule, values, between=1) == at


@dataclass(frozen=True)
class Flat:
    """An accuracy that no longer rises after step 2."""

    reward: Any = None

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        return {SCORE: min(run.step, 2) / 10}


def test_a_run_copies_resets_and_stops_on_plateaus_and_resumes() -> None:
    def made() -> Any:
        events = (CopyWeights("policy", "reference"), ResetOptimizer())
        run = toy_run(grpo.but(schedule=OnPlateau(SCORE, events, evaluations=2)), steps=8, eval_every=1)
        run.recipe = replace(run.recipe, study=Flat())
        return run

    whole, first, again = made(), made(), made()
    go(whole)
    assert [row["step"] for row in whole.metrics if "event/copy_weights/reference" in row] == [4, 6]
    first.on_step = lambda run, metrics, groups: setattr(run.stop, "asked", "time" if metrics["step"] == 2 else None)
    again.restore(MemoryCheckpoint(go(first)))
    assert MemoryCheckpoint(go(again)).differences(MemoryCheckpoint(whole)) == []
    ending = made()
    ending.recipe = ending.recipe.but(schedule=OnPlateau(SCORE, (StopHere("it is flat"),), evaluations=2))
    assert go(ending).step == 4


def test_refusals() -> None:
    with pytest.raises(UserError, match='unknown metric "held_out/accuracy"'):
        OnPlateau().at(Moment(0, 9, evaluated={"held_out/reward": 1.0}, evaluations=1), grpo, OnPlateau().start())
    with pytest.raises(UserError, match="but the recipe has no evaluations"):
        check_schedule(grpo.but(schedule=OnPlateau(), study=None))
    with pytest.raises(UserError, match="but player reference does not learn"):
        check_schedule(grpo.but(schedule=OnPlateau(events=(ResetOptimizer("reference"),))))
    with pytest.raises(UserError, match=r"OnPlateau.evaluations is 0"):
        OnPlateau(evaluations=0)
