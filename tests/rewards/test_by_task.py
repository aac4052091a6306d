"""A reward per task: which part judges which group, in order, and what each part sees."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from gradus.rewards.by_task import ByTask
from gradus.rewards.combine import Combines
from gradus.testing.methods import TOY, scripted_world, toy_trajectory
from gradus.types import Frozen, Group, Problem
from gradus.types.parts import Judgement
from gradus.types.signals import LogProbs


@dataclass(frozen=True)
class Says(Combines):
    value: float
    needs: tuple = ()
    seen: list[str] = field(default_factory=list, compare=False)

    async def score(self, groups: Sequence[Group], signals, world) -> list[list[Judgement]]:
        self.seen.extend(g.key for g in groups)
        return [[Judgement(self.value, Frozen(says=self.value)) for _ in g.trajectories] for g in groups]


def group(key: str, task: str, count: int = 2) -> Group:
    return Group(key, tuple(toy_trajectory([2], name=f"{key}/{i}").but(problem=Problem(key, task, text="a", answer="b")) for i in range(count)))


def test_each_task_has_its_part() -> None:
    one, other = Says(1.0), Says(2.0)
    world, _ = scripted_world(TOY, lambda ask: "")
    groups = [group("a", "x"), group("b", "y"), group("c", "x", 3), group("d", "z", 0)]
    found = asyncio.run(ByTask(Frozen(x=one), other).score(groups, {}, world))
    assert [[j.reward for j in row] for row in found] == [[1.0] * 2, [2.0] * 2, [1.0] * 3, []]
    assert (one.seen, other.seen) == (["a", "c"], ["b", "d"])
    assert found[0][0].components == {"says": 1.0}


def test_signals_of_all_parts_are_asked_for() -> None:
    assert ByTask(Frozen(x=Says(1.0, (LogProbs(),)), y=Says(1.0, (LogProbs(),))), Says(0.0)).needs == (LogProbs(),)
