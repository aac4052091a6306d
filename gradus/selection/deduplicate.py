"""Right answers, each said once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.selection.filters import learned
from gradus.types import Group, Key, Trajectory, UserError
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class RightAndDistinct:
    """Keeps of each group its right trajectories, of those that are alike the earliest; groups without a right one go."""

    pattern: str | None = (
        None  # alike are those in whose text it finds the same, in order; None, or nothing found: those of the same actions
    )
    count: int | None = None  # at most so many of a group, the earliest; None: all
    asks_right: ClassVar[str] = "Best"  # what to take where no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise UserError(f'RightAndDistinct.pattern is "{self.pattern}", which is no regular expression: {error}') from None

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        kept, dropped = [], []
        for group in groups:
            first: dict[Hashable, Trajectory] = {}
            for t in learned(group):
                if t.right:
                    first.setdefault(likeness(t, self.pattern), t)
            if first:
                kept.append(group.but(trajectories=tuple(first.values())[: self.count]))
            else:
                dropped.append(group)
        return kept, dropped


def likeness(trajectory: Trajectory, pattern: str | None) -> Hashable:
    """What is equal for trajectories that count as one: all that the pattern finds in the text, else the tokens chosen."""
    found = tuple(m.group() for m in re.finditer(pattern, trajectory.completion)) if pattern is not None else ()
    return found or b"/".join(c.tokens[c.chosen].tobytes() for c in trajectory.contexts)
