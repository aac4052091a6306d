"""Two judges that give points for each criterion: a model writes the points, or a scripted judge checks the criterion with a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from gradus.types import Frozen, Problem, Request, Sampling, Trajectory, UserError, unknown
from gradus.types.parts import Task, World
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Criterion:
    """A line of a rubric."""

    text: str
    points: int = 5  # points for an answer that fully meets the criterion

    def __post_init__(self) -> None:
        check_ranges(self, points="[1, inf)")


class Judge(Protocol):
    async def points(self, trajectories: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[int]]:
        """Returns the points of every trajectory for every criterion, from 0 to the criterion's `points`. If the judge's points cannot be read, they are
        0.
        """
        ...


@dataclass(frozen=True)
class WrittenPoints:
    """A judge: the player reads problem, answer and numbered criteria, and writes a line "NUMBER: POINTS" for each criterion."""

    player: str = "judge"
    template: str = "Question: {problem}\nAnswer: {answer}\nGive points for each line, as in 1: 0\n{criteria}\n"
    max_tokens: int = 64
    temperature: float = 0.0
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, max_tokens="[1, inf)", temperature="[0, inf)")
        for field in ("answer", "criteria"):
            if f"{{{field}}}" not in self.template:
                raise UserError(f"WrittenPoints.template does not contain {{{field}}}; add it, because the judge reads only the template")

    async def points(self, trajectories: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[int]]:
        listed = "\n".join(f"{i}. {c.text} ({c.points})" for i, c in enumerate(criteria, 1))
        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        asked = [
            Request(
                t.problem, 1, self.player, filled(self.template, problem=question(t), answer=t.completion, criteria=listed),
                sampling=sampling, tags=("judge", t.id), trained=False,
            )
            for t in trajectories
        ]
        found = await world.sample(asked)
        return [read_points(world.text(c.tokens[c.chosen], self.player), criteria) for (c,) in found]


def question(trajectory: Trajectory) -> str:
    """Returns the text of the trajectory's problem. If the problem consists of messages, returns the last message."""
    problem = trajectory.problem
    return problem.text if problem.text is not None else str(problem.messages[-1]["content"])


def read_points(text: str, criteria: Sequence[Criterion]) -> list[int]:
    """Reads the points in lines such as "2: 4". A criterion without such a line, or with points outside its range, has 0 points."""
    found = {int(number): int(value) for number, value in re.findall(r"^\s*(\d+)\s*[.:)]\s*(-?\d+)\b", text, re.M)}
    return [found.get(i, 0) if 0 <= found.get(i, 0) <= c.points else 0 for i, c in enumerate(criteria, 1)]


Check = Callable[[Problem, str], bool]
"""Whether an answer to a problem meets a criterion."""


def checks_for(own: Mapping[str, Check] | None, task: Task, who: str) -> Mapping[str, Check]:
    """Returns a mapping from the text of a criterion to its check.

    The mapping is `own` if it is given, else `checks` of the task's verifier. Raises UserError if neither exists.
    """
    found: Mapping[str, Check] | None = own if own is not None else getattr(task.verify, "checks", None)
    if found is None:
        raise UserError(f"neither {who} nor task {task.name} has checks; give {who} checks, or take a task with checks, such as stories")
    return found


@dataclass(frozen=True)
class ScriptedPoints:
    """A scripted judge, for tests and proving grounds. An answer gets all points of a criterion if it passes the criterion's check, else 0."""

    checks: Frozen[Check] | None = None  # text of a criterion -> check of problem and answer; None: the checks of the task

    def check_criteria(self, criteria: Sequence[Criterion], task: Task) -> None:
        """Raises UserError for a criterion without a check."""
        checks = checks_for(self.checks, task, type(self).__name__)
        for c in criteria:
            if c.text not in checks:
                raise unknown("criterion", c.text, checks, f"ScriptedPoints has no check for it on task {task.name}")

    async def points(self, trajectories: Sequence[Trajectory], criteria: Sequence[Criterion], world: World) -> list[list[int]]:
        """Raises UserError for a criterion without a check."""
        self.check_criteria(criteria, world.task)
        checks = checks_for(self.checks, world.task, type(self).__name__)
        return [[c.points * bool(checks[c.text](t.problem, t.completion)) for c in criteria] for t in trajectories]


def kept_criteria(criteria: Sequence[Criterion]) -> list[dict[str, Any]]:
    """Returns the criteria as plain values, which are stored in the state."""
    return [{"text": c.text, "points": c.points} for c in criteria]


def criteria_of(kept: Sequence[Mapping[str, Any]]) -> list[Criterion]:
    """Makes criteria from the values of `kept_criteria`."""
    return [Criterion(str(c["text"]), int(c["points"])) for c in kept]
