"""A reward for the steps and the result of an answer: the verdict times the share of right steps. The task's verifier must be able to check steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group, Problem, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.signals import Signal


@dataclass(frozen=True)
class SoundSteps(Combines):
    """A reward: the task's verdict times the share of right steps in the answer. If the verdict failed, the reward failed.

    The function `steps` of the task's verifier gives the share. Components: "verified" is the verdict, "sound_steps" is the share.
    """

    name: ClassVar[str] = "sound_steps"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        steps = steps_of(world.task)
        found = await Verified().score(groups, signals, world)
        return [
            [_judged(verdict, steps(t.problem, t.completion)) for verdict, t in zip(row, group.trajectories, strict=True)]
            for row, group in zip(found, groups, strict=True)
        ]

    def check(self, task: Task) -> None:
        """Raises UserError if the task's verifier cannot check steps."""
        steps_of(task)


def steps_of(task: Task) -> Callable[[Problem, str], float]:
    """Returns the function that gives the share of right steps of an answer. Raises UserError if the task has no such function."""
    found: Callable[[Problem, str], float] | None = getattr(task.verify, "steps", None)
    if found is None:
        raise UserError(
            f"SoundSteps checks the steps of an answer, but the verifier of task {task.name} has no `steps`; take a task with checked steps, "
            "such as flawed, or set the "
            "reward Verified"
        )
    return found


def _judged(verdict: Judgement, share: float) -> Judgement:
    if not isinstance(verdict.reward, int | float):
        return verdict
    return Judgement(verdict.reward * share, Frozen({**verdict.components, SoundSteps.name: share}))
