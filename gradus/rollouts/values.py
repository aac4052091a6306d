"""Monte Carlo values: the mean reward of continuations that start from places within an answer. No update uses the continuations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto, rolled
from gradus.rollouts.spans import STREAM, check_text, places, rows_of, streamed
from gradus.types import Context, Group, Request, Trajectory, UserError
from gradus.types.parts import Rollout, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.spans import STEPS, Marking

VALUES = "value"  # float64 [A], the value before the step of each action; NaN for an action without a step


@dataclass(frozen=True)
class Start:
    """The state before a step: a trajectory, one of its contexts, and the number of tokens of this context before the step."""

    trajectory: Trajectory
    context: Context
    at: int


@dataclass(frozen=True)
class MonteCarloValues:
    """Adds the streams `span` and `value` to the answers of `rollout`. `value` is the mean reward of `count` continuations that begin before the step
    of the action.

    The player of the answer samples each continuation from the tokens before the step, with the sampling settings of the answer. The token limit counts the
    tokens before the step, too. A continuation without a reward does not count. If all continuations have no reward, the value is 0. Answers of a group that
    have the same tokens before a step share the continuations. So the value before the first step is the same for the whole group.

    With `most`, only the first steps are estimated. The value of a later step is the answer's own reward. Metrics: `value` (mean over estimated
    states), `continuations` (per answer), and `spread` (mean deviation of the rewards of a state's continuations).
    """

    rollout: Rollout = Auto()
    marking: Marking = STEPS
    count: int = 9
    most: int | None = None  # the value is estimated for at most this number of steps per answer, the first ones; None: all steps
    gives: ClassVar[frozenset[str]] = frozenset({"spans", "step values"})
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", most="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text, because values start from places in a text."""
        check_text(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns the groups of `rollout` with both streams. Raises UserError if an answer has more than one context."""
        groups = await rolled(self.rollout, requests, world)
        rows = {t.id: rows_of(self.marking, t, world) for g in groups for t in g.trajectories}
        places = [self._starts(g, rows) for g in groups]
        asked = [start for unique in places for start in unique.values()]
        sampling = {r.problem.id: sampling_of(r, world) for r in requests}
        found = await asyncio.gather(*(self._value(start, sampling[start.trajectory.problem.id], world) for start in asked))
        means = iter(found)
        out = []
        for group, unique in zip(groups, places, strict=True):
            values = {key: next(means) for key in unique}
            filled = {t.id: [self._filled(t, c, row, values) for c, row in zip(t.contexts, rows[t.id], strict=True)] for t in group.trajectories}
            out.append(streamed(streamed(group, STREAM, {t.id: rows[t.id] for t in group.trajectories}), VALUES, filled))
        answers = sum(len(g.trajectories) for g in groups)
        world.note("value", float(np.mean(found)) if found else 0.0)
        world.note("continuations", self.count * len(asked) / max(1, answers))
        return out

    def _starts(self, group: Group, rows: dict[str, list[np.ndarray]]) -> dict[bytes, Start]:
        """Returns the states of a group whose values are estimated. States with the same tokens occur only once."""
        found: dict[bytes, Start] = {}
        for t in group.trajectories:
            if sum(c.actions > 0 for c in t.contexts) > 1:
                raise UserError(
                    f"MonteCarloValues continues answers of one context, but trajectory {t.id} has {len(t.contexts)} contexts; use a rollout "
                    "with one context per answer, such as Auto"
                )
            for context, row in zip(t.contexts, rows[t.id], strict=True):
                for at in places(context, row)[: self.most]:
                    found.setdefault(context.beginning(at), Start(t, context, at))
        return found

    async def _value(self, start: Start, sampling: Any, world: World) -> float:
        return mean_reward(await continued(start, self.count, sampling, world), world)

    def _filled(self, trajectory: Trajectory, context: Context, row: np.ndarray, values: dict[bytes, float]) -> np.ndarray:
        """Returns the values [A] of a context's actions."""
        out = np.full(len(row), np.nan)
        own = trajectory.value if trajectory.failed is None else 0.0
        numbers = list(dict.fromkeys(row[row >= 0].tolist()))
        for k, (number, at) in enumerate(zip(numbers, places(context, row), strict=True)):
            out[row == number] = values[context.beginning(at)] if self.most is None or k < self.most else own
        return out


async def continued(start: Start, count: int, sampling: Any, world: World) -> list[Trajectory]:
    """Returns `count` judged continuations of the state; no update uses them. The token limit of `sampling` counts the tokens of the answer before the
    state, too. Each continuation has one context, whose parent ends at the state; its completion begins with the partial answer.
    """
    t, context, at = start.trajectory, start.context, start.at
    said = int((context.action_positions < at).sum())
    limit = replace(sampling, max_tokens=max(1, sampling.limit - said))
    drawn = await world.fork(context, at, count, problem=t.problem, tags=("value", t.id), sampling=limit, player=t.player, trained=False)
    before = context.sequence[context.action_positions[:said]]
    made = [
        Trajectory(
            id=f"{t.id}/value/{at}/{i}",
            problem=t.problem,
            contexts=(one,),
            player=t.player,
            completion=world.text(np.concatenate([before, one.tokens[one.chosen]]), t.player),
            ended=one.ended,
            trained=False,
        )
        for i, one in enumerate(drawn)
    ]
    (judged,) = await world.judge([Group(f"{t.id}/value/{at}", tuple(made))])
    return list(judged.trajectories)


def mean_reward(continuations: Sequence[Trajectory], world: World) -> float:
    """Returns the mean reward of continuations; 0 if all rewards are missing. Adds their deviation to the metric `spread`."""
    rewards = [one.value for one in continuations if one.failed is None]
    world.note("spread", float(np.std(rewards)) if rewards else 0.0)
    return float(np.mean(rewards)) if rewards else 0.0
