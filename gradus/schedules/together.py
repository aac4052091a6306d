"""Applies several schedules at the same time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from gradus.types.errors import UserError
from gradus.types.frozen import Frozen
from gradus.types.moments import Event, Moment
from gradus.types.parts import Schedule
from gradus.types.returned import check_turn


@dataclass(frozen=True)
class Together:
    """Makes the changes and events of all schedules in `parts`, in their order. Two parts must not set the same path, because one value would be lost."""

    parts: Frozen[Schedule]

    def __post_init__(self) -> None:
        if not self.parts:
            raise UserError("Together.parts is empty; give schedules by name: Together(Frozen(kl=Ramp(...), rate=Ramp(...)))")

    @property
    def watches(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts.values() for name in getattr(part, "watches", ()))

    @property
    def causes(self) -> tuple[Event, ...]:
        return tuple(event for part in self.parts.values() for event in getattr(part, "causes", ()))

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        """Returns the settings of all parts.

        Raises UserError if two parts set the same path, or if one part sets a path below a path of the other part.
        """
        announced = {name: part.sets(recipe) for name, part in self.parts.items() if hasattr(part, "sets")}
        _refuse_common({name: [path for path, _ in pairs] for name, pairs in announced.items()})
        return tuple(pair for pairs in announced.values() for pair in pairs)

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        changed: dict[str, dict[str, Any]] = {}
        events: list[Event] = []
        for name, part in self.parts.items():
            found = part.at(now, recipe)
            found = found if isinstance(found, tuple) else (found, ())
            check_turn(part, found, now, recipe)
            if found[0] is not recipe:
                changed[name] = recipe.changes_to(found[0])
            events += found[1]
        _refuse_common(changed)
        out = recipe
        for values in changed.values():
            out = out.but(**values) if values else out
        return out, tuple(events)


def _refuse_common(paths: dict[str, Any]) -> None:
    """Raises UserError if two names have a common path, or if a path of one name is below a path of the other name."""
    for (one, mine), (other, theirs) in combinations(paths.items(), 2):
        if common := next((p for p in mine if _meets(p, theirs)), None):
            raise UserError(f"Together.parts: {one} and {other} both set {common}; leave one of them out, or write the points of both in one Ramp")


def _meets(path: str, others: Iterable[str]) -> bool:
    return any(path == other or path.startswith(f"{other}.") or other.startswith(f"{path}.") for other in others)
