"""A curriculum that draws equally many problems of each kind in every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradus.curricula.bandit import arms_of
from gradus.types import Request, UserError
from gradus.types.parts import Source, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_drawn


@dataclass(frozen=True)
class EachKind:
    """Requests prompts * group / n problems (rounded down) of each of the n kinds, kind by kind, with one sample per problem.

    `arms`: the kinds; empty: all arms of the source. `last`: use only this number of kinds at the end of the list; 0: all kinds.
    """

    arms: tuple[str, ...] = ()
    last: int = 0

    def __post_init__(self) -> None:
        check_ranges(self, last="[0, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's source has no arms, or if the source lacks an arm that `arms` names."""
        arms_of(self, task.source)

    def start(self) -> dict[str, int]:
        return {}

    def choose(self, source: Source, count: int, world: World, state: Mapping[str, int]) -> tuple[list[Request], dict[str, int]]:
        """Returns the requests. The state contains, for every kind, the number of its problems that were drawn so far.

        Raises UserError if the step has fewer problems than there are kinds.
        """
        kinds = arms_of(self, source)[-self.last :]
        each = count * world.group // len(kinds)
        if not each:
            raise UserError(f"EachKind draws from {len(kinds)} kinds, but a step has only {count * world.group} problems; give a larger --prompts")
        named: Any = source
        out: list[Request] = []
        for kind in kinds:
            first = state.get(kind, 0)
            problems = named.draw_arm(kind, range(first, first + each), None, world.seed.fold("problems", kind))
            check_drawn(source, problems, range(first, first + each))
            out += [Request(problem) for problem in problems]
        return out, {**state, **{kind: state.get(kind, 0) + each for kind in kinds}}
