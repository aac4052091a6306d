"""The task's own verdict: its verifier, its judge of whole trajectories, or the return of its environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.environment import EnvironmentReturn
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group, Outcome, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Verified:
    """The reward that the task gives, as component "verified" ("environment" where an episode was played).

    A verifier that raises, or gives something that is no finite number, has failed for that trajectory.
    """

    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        task = world.task
        if task.verify is None and task.judge is None:
            if task.environment is None:
                raise UserError(f"task {task.name} has no verifier, so its completions cannot be judged; give a reward with --reward file.py:function")
            return await EnvironmentReturn().score(groups, signals, world)
        return [[judgement(verdict(task, t)) for t in g.trajectories] for g in groups]


def verdict(task: Task, trajectory: Trajectory) -> Outcome:
    """What the task says of a trajectory; whatever goes wrong in foreign code is a failure with its reason."""
    if isinstance(trajectory.reward, Failed):
        return trajectory.reward
    try:
        if task.judge is not None:
            value = task.judge(trajectory)
        else:
            assert task.verify is not None
            value = task.verify(trajectory.problem, trajectory.completion)
    except Exception as error:
        return Failed(f"the verifier of task {task.name} raised {type(error).__name__}: {error}")
    if value is NOT_APPLICABLE or isinstance(value, Failed):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return float(value) if isinstance(value, bool) else Failed(f"the verifier of task {task.name} gave {value!r}, which is no number")
    return float(value) if math.isfinite(value) else Failed(f"the verifier of task {task.name} gave {value}")


def judgement(outcome: Outcome, name: str = "verified") -> Judgement:
    """A judgement whose only component is its reward."""
    return Judgement(outcome, Frozen({name: outcome}))
