"""The reward of an episode: the sum of its environment's rewards, minus penalties for illegal actions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal


@dataclass(frozen=True)
class EnvironmentReturn:
    """A reward: the sum of the episode's step rewards. Each step reward is at the last token of its action.

    If an environment gives rewards to single players of a game (`Turn.rewards`), these rewards form the component `role`, and are part of the sum. The reward
    does not apply to a trajectory without an environment. If the environment raised an error, the trajectory has failed.
    """

    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[judged(trajectory) for trajectory in group.trajectories] for group in groups]


def judged(trajectory: Trajectory) -> Judgement:
    """Judges one episode: computes its return."""
    if isinstance(trajectory.reward, Failed):
        return Judgement(trajectory.reward)
    if not trajectory.contexts or "turn" not in trajectory.contexts[0].streams:
        return Judgement(NOT_APPLICABLE)
    total = math.fsum(earned(trajectory, "environment"))
    roles = list(earned(trajectory, "role"))
    own = Frozen(role=math.fsum(roles)) if roles else Frozen()
    return Judgement(total + own.get("role", 0.0), Frozen({"environment": total, **own}))


def earned(trajectory: Trajectory, component: str) -> Iterator[float]:
    """Yields the rewards of one component at the trajectory's actions."""
    return (value for context in trajectory.contexts for _, name, value in context.rewards if name == component)


def invalid_actions(trajectory: Trajectory) -> list[tuple[int, int]]:
    """Returns a pair (number of the context, number of the action) for the last token of every illegal action."""
    found: list[tuple[int, int]] = []
    for i, context in enumerate(trajectory.contexts):
        turns, valid = context.streams["turn"], context.streams["valid"]
        last = np.append(turns[1:] != turns[:-1], True)  # the next token belongs to another turn
        found += [(i, int(action)) for action in np.flatnonzero(last & ~valid)]
    return found
