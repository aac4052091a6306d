"""Replaces the rewards of a group's answers by rewards that depend on the whole group, on the answers' likelihoods, or on their lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gradus.rewards.combine import name_of
from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Reward

Pay = Callable[[Sequence[Trajectory]], Sequence[tuple[float, Mapping[str, float]]]]
"""Judged answers of one group -> for each answer, its new reward and its further components."""


def repaid(reward: Reward, group: Group, judged: Sequence[Judgement], pay: Pay) -> list[Judgement]:
    """Returns the judgements of `reward` for a group with the rewards that `pay` computes.

    `pay` gets the answers with a reward that is a number; `value` and `right` of these answers follow from the judgements. All other judgements do not change.
    The components of `reward` keep their names, so the accuracy is that of the verifier. A reward without components becomes a component under its name.
    """
    named = [replace(j, components=j.components or Frozen({name_of(reward): j.reward})) for j in judged]
    applies = [i for i, j in enumerate(named) if isinstance(j.reward, int | float)]
    paid = pay([group.trajectories[i].but(reward=named[i].reward, components=named[i].components) for i in applies])
    for i, (value, components) in zip(applies, paid, strict=True):
        named[i] = replace(named[i], reward=value, components=Frozen({**named[i].components, **components}))
    return named
