"""The reward of the task's own verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.calling import outcome
from gradus.rewards.combine import Combines
from gradus.types import Failed, Frozen, Group, Outcome, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, Task, Verify, World
from gradus.types.signals import Signal
from gradus.types.user_code import raised


@dataclass(frozen=True)
class Verified(Combines):
    """What `task.verify` says of the completion. A verifier that raises, or gives anything but a finite number, has failed."""

    name: ClassVar[str] = "verified"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        self.check(world.task)
        assert world.task.verify is not None
        return [[_judged(t, world.task.verify) for t in group.trajectories] for group in groups]

    def check(self, task: Task) -> None:
        """Raises UserError where the task has no verifier."""
        if task.verify is None:
            raise UserError(
                f'task {task.name} cannot tell right from wrong: its problems have no answers; add a column "answer" '
                "or give a reward function (--reward FILE.py:FUNCTION)"
            )


def verdict(verify: Verify, trajectory: Trajectory) -> Outcome:
    """What a verifier says of one trajectory; its errors are failures, whatever they are."""
    try:
        return outcome(verify(trajectory.problem, trajectory.completion))
    except Exception as error:  # a task's verifier may be a user's
        return Failed(f"the verifier raised {raised(error)}")


def _judged(trajectory: Trajectory, verify: Verify) -> Judgement:
    value = verdict(verify, trajectory)
    return Judgement(value, Frozen({Verified.name: value}))
