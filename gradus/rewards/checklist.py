"""A reward by the problem's own criteria: each problem has a checklist, and a judge grades every item."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.rewards.judge import Criterion, Judge, WrittenPoints
from gradus.types import NOT_APPLICABLE, Frozen, Group, Problem, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

Items = tuple[tuple[str, float], ...]
"""The texts of the criteria with their weights. A criterion with a negative weight names a fault."""

COLUMN = "checklist"
"""The column of a problem with its criteria: texts, or pairs of a text and a weight."""


def checklist_of(problem: Problem, task: Task) -> Items | None:
    """Returns the problem's column `checklist`. Without this column, returns the result of the function `checklist` of the task's verifier, or None if there
    is no such function.
    """
    given = problem.meta.get(COLUMN)
    if given is None:
        found: Callable[[Problem], Items] | None = getattr(task.verify, COLUMN, None)
        return None if found is None else tuple(found(problem))
    return tuple((item, 1.0) if isinstance(item, str) else (str(item[0]), float(item[1])) for item in given)


def weighted_share(grades: Sequence[float], weights: Sequence[float]) -> float:
    """Returns the sum of weight * grade, divided by the sum of the positive weights, and limited to the range from 0 to 1. `grades`: from 0 to 1.

    Reference: Arora et al., HealthBench, arXiv:2505.08775, section 3 (negative weights for faults).

    >>> weighted_share([1, 0, 1], [5, 3, -4]), weighted_share([1, 0.5, 0, 1], [1, 1, 1, 1])
    (0.125, 0.625)
    """
    best = sum(w for w in weights if w > 0)
    return min(max(sum(g * w for g, w in zip(grades, weights, strict=True)) / best, 0.0), 1.0) if best > 0 else 0.0


@dataclass(frozen=True)
class Checklist(Combines):
    """The weighted share of the problem's own criteria that an answer meets, from 0 to 1 (see `weighted_share`).

    The criteria are in the problem's column `checklist`, or come from the task's verifier. The judge gives 0 to `grades` points per criterion, so with
    `grades` 2 a criterion can be half met. The reward does not apply to a problem without a criterion of positive weight. Component: checklist. Logged
    value: `grades`, from 0 to 1. Metric: `checklist/items`, the number of criteria that count.
    """

    judge: Judge = WrittenPoints()
    grades: int = 1
    name: ClassVar[str] = "checklist"
    needs: ClassVar[tuple[Signal, ...]] = ()
    unmarked: ClassVar[bool] = True  # a share marks no answer as right

    def __post_init__(self) -> None:
        check_ranges(self, grades="[1, inf)")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """Asks about each problem's criteria. Raises UserError if no problem has criteria."""
        lists = [checklist_of(g.trajectories[0].problem, world.task) if g.trajectories else None for g in groups]
        if groups and not any(items is not None for items in lists):
            raise UserError(f'the problems of task {world.task.name} have no criteria; add a column "{COLUMN}", or take a task with criteria, such as instructions')
        return list(await asyncio.gather(*(self._group(g, items or (), world) for g, items in zip(groups, lists, strict=True))))

    async def _group(self, group: Group, items: Items, world: World) -> list[Judgement]:
        if not items or not group.trajectories:
            return [Judgement(NOT_APPLICABLE, Frozen({self.name: NOT_APPLICABLE})) for _ in group.trajectories]
        points = await self.judge.points(group.trajectories, [Criterion(text, self.grades) for text, _ in items], world)
        rows = [[p / self.grades for p in row] for row in points]
        used = self.counting(rows, items)
        world.note("checklist/items", len(used))
        return [self._judged([row[i] for i in used], [items[i][1] for i in used], row) for row in rows]

    def counting(self, rows: Sequence[Sequence[float]], items: Items) -> list[int]:
        """Returns the indices of the criteria that count: all. `rows`: the grades of each answer of the group."""
        return list(range(len(items)))

    def _judged(self, grades: Sequence[float], weights: Sequence[float], every: Sequence[float]) -> Judgement:
        value = weighted_share(grades, weights) if any(w > 0 for w in weights) else NOT_APPLICABLE
        return Judgement(value, Frozen({self.name: value}), extra=Frozen(grades=tuple(every)))
