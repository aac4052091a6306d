"""Functions for rewards that change the values of another reward, group by group. An example is a length reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradus.rewards.combine import name_of
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Reward, Signals, World

Rule = Callable[[Sequence[Group]], Sequence[tuple[np.ndarray, Mapping[str, np.ndarray]]]]
"""A function of the groups of judged answers. It returns the new rewards [G] of every group, and further components, each [G]."""

Pay = Callable[[Sequence[Trajectory]], Sequence[tuple[float, Mapping[str, float]]]]
"""A function of the judged answers of one group. It returns the new reward of every answer, and further components. All answers have the same components."""


def by_group(pay: Pay) -> Rule:
    """Makes a rule that applies `pay` to each group."""

    def rule(judged: Sequence[Group]) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
        return [_columns(pay(group.trajectories)) for group in judged]

    return rule


def _columns(paid: Sequence[tuple[float, Mapping[str, float]]]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    names = paid[0][1] if paid else ()
    return np.array([value for value, _ in paid]), {name: np.array([components[name] for _, components in paid]) for name in names}


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
