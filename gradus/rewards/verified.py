"""The task's own verdict: its judge of whole trajectories, its verifier of completions, or the return of its environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.calling import outcome
from gradus.rewards.combine import Combines
from gradus.rewards.environment import EnvironmentReturn
from gradus.types import Failed, Frozen, Group, Outcome, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.signals import Signal
from gradus.types.user_code import raised


@dataclass(frozen=True)
class Verified(Combines):
    """What the task says: `task.judge` of the trajectory, else `task.verify` of the completion, else the sum of its environment's rewards.

    A verdict that raises, or is anything but a finite number, has failed.
    """

    name: ClassVar[str] = "verified"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        self.check(world.task)
        if world.task.judge is None and world.task.verify is None:
            return await EnvironmentReturn().score(groups, signals, world)
        return [[_judged(t, world.task) for t in group.trajectories] for group in groups]

    def check(self, task: Task) -> None:
        """Raises UserError where the task has no way to tell."""
        if task.judge is None and task.verify is None and task.environment is None:
            raise UserError(
                f'task {task.name} cannot tell right from wrong: its problems have no answers; add a column "answer" '
                "or give a reward function (--reward FILE.py:FUNCTION)"
            )


def verdict(task: Task, trajectory: Trajectory) -> Outcome:
    """What the task says of one trajectory; errors of its judge or verifier are failures, whatever they are."""
    if isinstance(trajectory.reward, Failed):  # a rollout may have failed before there was anything to judge
        return trajectory.reward
    try:
        if task.judge is not None:
            return outcome(task.judge(trajectory))
        assert task.verify is not None
        return outcome(task.verify(trajectory.problem, trajectory.completion))
    except (Exception, SystemExit) as error:  # a task's verifier may be a user's
        return Failed(f"the verifier raised {raised(error)}")


def _judged(trajectory: Trajectory, task: Task) -> Judgement:
    value = verdict(task, trajectory)
    return Judgement(value, Frozen({Verified.name: value}))
