"""Two judges in a row: the second judge gets only the answers that the first judge sends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.rewards.combine import Combines, check_reward, name_of
from gradus.rewards.verified import Verified
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group, NotApplicable, Outcome, UserError
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_judgements
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Cascade(Combines):
    """Judges every answer by `first`. If the value is `bound` or more, the answer keeps this value. If the value is below `bound`, the answer is sent on, and
    gets the value of `then`. So an expensive judge reads only the answers whose reward is not clear yet. If `first` failed or does
    not apply, the answer is not sent on. Components: the value of `first` under its name, and the components of `then`, which do not apply to the other
    answers. Metric: `cascade/sent`, the share of answers that are sent on.
    """

    then: Reward
    first: Reward = Verified()
    bound: float = 1.0
    name: ClassVar[str] = "cascade"

    def __post_init__(self) -> None:
        check_ranges(self, bound="(-inf, inf)")
        if name_of(self.first) == name_of(self.then):
            raise UserError(f"Cascade: both parts have the name {name_of(self.first)}; use two different rewards")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(dict.fromkeys((*self.first.needs, *self.then.needs)))

    def check(self, task: Task) -> None:
        check_reward(self.first, task)
        check_reward(self.then, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        first = await self.first.score(groups, signals, world)
        check_judgements(self.first, first, groups)
        sent = [[self.sent(j.reward) for j in row] for row in first]
        parts = [g.but(trajectories=tuple(t for t, s in zip(g.trajectories, row, strict=True) if s)) for g, row in zip(groups, sent, strict=True)]
        asked = [g for g in parts if g.trajectories]
        then = await self.then.score(asked, signals, world) if asked else []
        check_judgements(self.then, then, asked)
        second = iter([j for row in then for j in row])
        for row in sent:
            for one in row:
                world.note("cascade/sent", one)
        return [[self._both(j, next(second) if s else None) for j, s in zip(*rows, strict=True)] for rows in zip(first, sent, strict=True)]

    def sent(self, value: Outcome) -> bool:
        """Returns whether an answer with this value by `first` is sent on."""
        return not isinstance(value, Failed | NotApplicable) and value < self.bound

    def _both(self, first: Judgement, then: Judgement | None) -> Judgement:
        known = {name_of(self.first): first.reward}
        if then is None:
            return replace(first, components=Frozen({**known, name_of(self.then): NOT_APPLICABLE}))
        return replace(then, components=Frozen({**known, **(dict(then.components) or {name_of(self.then): then.reward})}))
