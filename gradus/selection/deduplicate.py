"""Selects right answers without duplicates."""

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
    """Keeps the right trajectories of each group without duplicates. If trajectories are equal, the first one stays. Drops groups without a right trajectory."""

    pattern: str | None = (
        None  # regular expression: answers with equal matches are duplicates. If there is no pattern or no match, the tokens are compared
    )
    count: int | None = None  # keeps at most this number of answers per group, the earliest first; None: all
    asks_right: ClassVar[str] = "Best"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise UserError(
                f'RightAndDistinct.pattern is "{self.pattern}", which is not a regular expression: {error}; correct the pattern'
            ) from None

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
    """Returns a key that is equal for duplicates: all matches of the pattern in the text, or the sampled tokens if there is no match.

    Answers to different pictures are never duplicates.
    """
    found = tuple(m.group() for m in re.finditer(pattern, trajectory.completion)) if pattern is not None else ()
    said = found or b"/".join(c.tokens[c.chosen].tobytes() for c in trajectory.contexts)
    digests = tuple(thing[3] for c in trajectory.contexts for thing in c.things)
    return (said, digests) if digests else said
