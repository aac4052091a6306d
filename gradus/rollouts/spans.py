"""Marks the actions of every answer by the regions of its text: steps, lines, phrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.auto import Auto, rolled
from gradus.types import Context, Frozen, Group, Request, Trajectory, UserError
from gradus.types.parts import Rollout, Task, World
from gradus.types.spans import Marking, Separated

STREAM = "span"  # int32 [A], the number of the region of each action; -1 if the action is in no region


@dataclass(frozen=True)
class WithSpans:
    """Adds the stream `span` to the answers of `rollout`: for each action, the number of its region in the context. An action in no region gets -1.

    Metric: `marked`, the share of actions in a region. A marking may have the method `metrics(rows) -> {name: number}`, which gets the numbers of all
    contexts of a step.
    """

    rollout: Rollout = Auto()
    marking: Marking = Separated()
    gives: ClassVar[frozenset[str]] = frozenset({"spans"})

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def judges(self, task: Task) -> bool:
        """Whether the trajectories of `rollout` need judging."""
        return bool(getattr(self.rollout, "judges", lambda _: True)(task))

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text."""
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout`. Every context that has actions gets the stream `span`."""
        groups = await rolled(self.rollout, requests, world)
        out = [streamed(g, STREAM, {t.id: self._rows(t, world) for t in g.trajectories}) for g in groups]
        rows = [c.streams[STREAM] for g in out for t in g.trajectories for c in t.contexts if c.actions]
        metrics: dict[str, float] = getattr(self.marking, "metrics", lambda _: {})(rows)
        for name, value in {"marked": float((np.concatenate(rows) >= 0).mean()) if rows else 0.0, **metrics}.items():
            world.note(name, value)
        return out

    def _rows(self, trajectory: Trajectory, world: World) -> list[np.ndarray]:
        return rows_of(self.marking, trajectory, world)


def check_text(part: Any, task: Task) -> None:
    """Raises UserError if the player of the task writes no text, because `part` then has no text to match."""
    if not task.of_text:
        name = type(part).__name__
        raise UserError(f"{name} matches the text of answers, but the player of task {task.name} writes no text; take a task whose answers are text")


def rows_of(marking: Marking, trajectory: Trajectory, world: World) -> list[np.ndarray]:
    """Returns, for each context, the region numbers [A] of its actions. Raises UserError if the marking returns an array of another shape."""
    found = []
    for context in trajectory.contexts:
        row = np.asarray(marking.of(context, lambda tokens: world.text(tokens, trajectory.player)))
        if row.shape != (context.actions,) or row.dtype.kind not in "iu":
            due = f"whole numbers [{context.actions}], one per action"
            raise UserError(f"{type(marking).__name__}.of returned {row.dtype} of shape {list(row.shape)}; it must return {due}")
        found.append(row.astype(np.int32))
    return found


def places(context: Context, row: np.ndarray) -> list[int]:
    """Returns the number of tokens before each step. The steps are in the order of their first actions."""
    return [int(context.action_positions[np.flatnonzero(row == number)[0]]) for number in dict.fromkeys(row[row >= 0].tolist())]


def streamed(group: Group, name: str, rows: dict[str, list[np.ndarray]]) -> Group:
    """Returns the group with the stream `name` in every context that has actions. `rows` maps the id of a trajectory to one array [A, ...] per context."""

    def of(context: Context, row: np.ndarray) -> Context:
        return replace(context, streams=Frozen({**context.streams, name: row})) if context.actions else context

    made = [t.but(contexts=tuple(map(of, t.contexts, rows[t.id]))) for t in group.trajectories]
    return group.but(trajectories=tuple(made))
