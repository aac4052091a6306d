"""A reward for each task of a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.signals import Signal


@dataclass(frozen=True)
class ByTask(Combines):
    """Judges the answers of each task by its part in `parts`, and the answers of all other tasks by `otherwise`.

    The task of an answer is the name of its problem's task. Each part sees only the groups of its tasks. The judgements keep the
    components of their part.
    """

    parts: Frozen[Reward]  # name of a task -> its reward
    otherwise: Reward = Verified()
    name: ClassVar[str] = "by_task"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(dict.fromkeys(signal for part in (*self.parts.values(), self.otherwise) for signal in part.needs))

    def check(self, task: Task) -> None:
        """Raises UserError if `otherwise` does not fit the task. If a part judges the whole task, checks this part instead."""
        check_reward(self.parts.get(task.name, self.otherwise), task)

    def of(self, group: Group) -> Any:
        """Returns the reward of a group. An empty group has the reward `otherwise`."""
        return self.parts.get(group.trajectories[0].problem.task, self.otherwise) if group.trajectories else self.otherwise

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        out: list[list[Judgement]] = [[] for _ in groups]
        for part in dict.fromkeys(id(self.of(g)) for g in groups):
            mine = [i for i, g in enumerate(groups) if id(self.of(g)) == part]
            rows = await self.of(groups[mine[0]]).score([groups[i] for i in mine], signals, world)
            for i, row in zip(mine, rows, strict=True):
                out[i] = row
        return out
