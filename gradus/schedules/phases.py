"""The phases of a run. One phase follows another, and each phase has a number of steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradus.schedules.paths import fitting, with_value
from gradus.types.errors import UserError
from gradus.types.frozen import Frozen
from gradus.types.moments import Event, Moment
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Phase:
    """A number of steps, and the values that some fields of the recipe have during these steps. All other fields have the values of the recipe."""

    steps: int = 100  # length of the phase; the last phase ignores this number unless the phases are repeated
    values: Frozen[Any] = Frozen()  # dotted path -> value; a value is a number or a part
    events: tuple[Event, ...] = ()  # these events happen before the first step of the phase

    def __post_init__(self) -> None:
        check_ranges(self, steps="[1, inf)")


@dataclass(frozen=True)
class Phases:
    """Uses the values of one phase after another. The last phase lasts to the end of the run. If `repeat` is set, the first phase follows the last phase again."""

    phases: tuple[Phase, ...]
    repeat: bool = False  # whether the phases start again after the last one

    def __post_init__(self) -> None:
        if not self.phases:
            raise UserError("Phases.phases is empty; give at least one Phase")

    def phase(self, step: int) -> tuple[Phase, bool]:
        """Returns the phase of a step, and whether the step is the first one of the phase."""
        if self.repeat:
            step %= sum(phase.steps for phase in self.phases)
        for phase in self.phases[:-1]:
            if step < phase.steps:
                return phase, step == 0
            step -= phase.steps
        return self.phases[-1], step == 0

    @property
    def causes(self) -> tuple[Event, ...]:
        return tuple(event for phase in self.phases for event in phase.events)

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        return tuple((path, fitting(recipe, path, value)) for phase in self.phases for path, value in phase.values.items())

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        phase, first = self.phase(now.step)
        for path, value in phase.values.items():
            recipe = with_value(recipe, path, value)
        return recipe, phase.events if first else ()
