"""Credit within strata: a trajectory is compared only with the trajectories of its group that belong to the same stratum.

A stratum is a kind of trajectory, such as all trajectories with one role, one budget or one number of tool calls.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from gradus.credit.groups import GroupRelative
from gradus.types import Group, Trajectory, UserError
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Signal


class Stratum(Protocol):
    """Names the stratum of a trajectory."""

    def of(self, trajectory: Trajectory) -> Hashable:
        """Returns the stratum. Trajectories of a group are compared if their strata are equal."""
        ...


def calls(tool: str, text: str) -> int:
    """Returns the number of lines that begin with the tool's name and a colon.

    >>> calls("search", "search: home of Ann\\nSearch: mayor of Bo\\nanswer: I search: Cy")
    2
    """
    return len(re.findall(rf"^\s*{re.escape(tool)}:", text, flags=re.MULTILINE | re.IGNORECASE))


@dataclass(frozen=True)
class Calls:
    """The stratum is the number of tool calls in the completion. A call is a line that begins with the tool's name and a colon."""

    tools: tuple[str, ...] = ("search",)
    most: int | None = None  # all numbers of calls from `most` on form one stratum; None: each number is a stratum

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)")
        if not self.tools or not all(self.tools):
            raise UserError(f"Calls.tools is {self.tools!r}; give at least one name, and no empty name: the agent writes the name of a tool before a colon")

    def of(self, trajectory: Trajectory) -> int:
        count = sum(calls(tool, trajectory.completion) for tool in self.tools)
        return count if self.most is None else min(count, self.most)


@dataclass(frozen=True)
class Linked:
    """The stratum is the entry `name` of the trajectory's links, such as a role or a budget. Trajectories without this entry form one stratum."""

    name: str = "role"

    def of(self, trajectory: Trajectory) -> Hashable:
        found: Hashable = trajectory.links.get(self.name)
        return found


def strata(group: Group, key: Stratum) -> list[list[int]]:
    """Returns the indices of the trajectories of each stratum, one list per stratum. Strata are in the order of their first trajectory."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for number, trajectory in enumerate(group.trajectories):
        found[key.of(trajectory)].append(number)
    return list(found.values())


@dataclass(frozen=True)
class Within:
    """Computes the credit of `rule` separately in each stratum of a group. `key` names the stratum of a trajectory.

    `rule` gets each stratum as a group. If a stratum has one trajectory, a rule that compares trajectories gives this trajectory the advantage 0. If all
    trajectories of a group belong to one stratum, the advantages are exactly those of `rule`.
    """

    key: Stratum = Linked()
    rule: Credit = GroupRelative()

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        cut = [strata(group, self.key) for group in groups]
        pieces = [
            group.but(key=f"{group.key}/{number}", trajectories=tuple(group.trajectories[i] for i in chosen), pool=())
            for group, parts in zip(groups, cut, strict=True)
            for number, chosen in enumerate(parts)
        ]
        inside = iter(assigned(self.rule, pieces, signals))
        return [_in_order(parts, [next(inside) for _ in parts]) for parts in cut]


def _in_order(parts: Sequence[Sequence[int]], rows: Sequence[Sequence[Credited]]) -> list[Credited]:
    """Puts the results of the strata back in the order of the group's trajectories."""
    placed = {i: credited for chosen, row in zip(parts, rows, strict=True) for i, credited in zip(chosen, row, strict=True)}
    return [placed[i] for i in range(len(placed))]
