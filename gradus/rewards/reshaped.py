"""The common work of rewards that change the values of another reward group by group, such as length rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradus.rewards.combine import name_of
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Reward, Signals, World

Rule = Callable[[Sequence[Group]], Sequence[tuple[np.ndarray, Mapping[str, np.ndarray]]]]
"""Gets the groups of judged answers. Returns for every group the new rewards [G], and further components, each [G]."""


async def reshaped(reward: Reward, groups: Sequence[Group], signals: Signals, world: World, rule: Rule) -> list[list[Judgement]]:
    """Judges by `reward`, and replaces the rewards by those of `rule`.

    `rule` sees only the answers to which `reward` gave a number. The judgements of all other answers do not change. The components of `reward` keep their names,
    and the components of `rule` are added. Rewards at single actions do not change.
    """
    rows = await reward.score(groups, signals, world)
    named = [[replace(j, components=j.components or Frozen({name_of(reward): j.reward})) for j in row] for row in rows]
    applies = [[i for i, j in enumerate(row) if isinstance(j.reward, int | float)] for row in named]
    judged = [
        group.but(trajectories=tuple(group.trajectories[i].but(reward=row[i].reward, components=row[i].components) for i in chosen))
        for group, row, chosen in zip(groups, named, applies, strict=True)
    ]
    for row, chosen, (values, components) in zip(named, applies, rule(judged), strict=True):
        for n, i in enumerate(chosen):
            more = {name: float(column[n]) for name, column in components.items()}
            row[i] = replace(row[i], reward=float(values[n]), components=Frozen({**row[i].components, **more}))
    return named
