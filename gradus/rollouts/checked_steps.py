"""Exact labels of steps: at each position in an answer, whether all steps before it are right. The task's verifier checks the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.spans import STREAM, check_text, places, rows_of, streamed
from gradus.rollouts.values import VALUES
from gradus.types import Context, Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import Rollout, Task, World
from gradus.types.spans import Marking, Separated

BeginsRight = Callable[[Problem, str], bool]


@dataclass(frozen=True)
class CheckedSteps:
    """Adds the streams `span` and `value` to the answers of `rollout`. `value` is 1 if the text before the step has only right steps, else 0.

    The functions `begins_right` and `steps` of the task's verifier check the steps. The streams have the same form as those of `MonteCarloValues`, so the
    same parts can read both. The reward of an answer becomes 1 if no step is missing and all steps are right, else 0. So the whole answer has an exact label,
    too.
    """

    rollout: Rollout = Auto()
    marking: Marking = Separated()
    gives: ClassVar[frozenset[str]] = frozenset({"spans", "step values"})
    plays: ClassVar[str] = "answers"

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text, or if the task's verifier cannot check steps."""
        check_text(self, task)
        check_of(task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        begins_right, out = check_of(world.task), []
        steps: Callable[[Problem, str], float] = getattr(world.task.verify, "steps", lambda *_: 0.0)
        for group in await rolled(self.rollout, requests, world):
            rows = {t.id: rows_of(self.marking, t, world) for t in group.trajectories}
            values = {t.id: [_values(c, row, t, begins_right, world) for c, row in zip(t.contexts, rows[t.id], strict=True)] for t in group.trajectories}
            made = streamed(streamed(group, STREAM, rows), VALUES, values)
            judged = tuple(t if t.failed is not None else t.but(reward=float(steps(t.problem, t.completion) == 1)) for t in made.trajectories)
            out.append(replace(made, trajectories=judged))
        return out


def check_of(task: Task) -> BeginsRight:
    """Returns the function that tells whether all steps of a text are right. Raises UserError if the task has no such function."""
    found: BeginsRight | None = getattr(task.verify, "begins_right", None)
    if found is None or not hasattr(task.verify, "steps"):
        raise UserError(
            f"CheckedSteps checks the steps of an answer, but the verifier of task {task.name} lacks `begins_right` or `steps`; "
            "take a task with checked steps, such as flawed, or set --rollout MonteCarloValues"
        )
    return found


def _values(context: Context, row: np.ndarray, trajectory: Trajectory, begins_right: BeginsRight, world: World) -> np.ndarray:
    """Returns the label of the text before each action's step, [A]; NaN for an action without a step."""
    out = np.full(len(row), np.nan)
    for number, at in zip(dict.fromkeys(row[row >= 0].tolist()), places(context, row), strict=True):
        said = context.sequence[context.action_positions[context.action_positions < at]]
        out[row == number] = float(begins_right(trajectory.problem, world.text(said, trajectory.player)))
    return out
