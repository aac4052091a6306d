"""Functions of `RunWorld` that change no object: they join groups, write judgements into trajectories, and find the first action of a context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from gradus.types import Context, Failed, Group, Trajectory, UserError
from gradus.types.parts import Judgement


def joined(groups: Sequence[Group]) -> list[Group]:
    """Sorts groups by key and joins groups with the same key. Raises UserError if a trajectory occurs twice."""
    found: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda group: group.key):  # episodes end in any order
        found.setdefault(group.key, []).append(group)
    for key, same in found.items():
        ids = sorted(t.id for group in same for t in group.trajectories) if len(same) > 1 else []
        if twice := next((a for a, b in pairwise(ids) if a == b), None):
            raise UserError(
                f"trajectory {twice} was passed to world.also twice, in groups with the key {key}; give each trajectory its own id"
            )
    return [
        same[0]
        if len(same) == 1
        else same[0].but(trajectories=tuple(sorted((t for g in same for t in g.trajectories), key=lambda t: t.id)))
        for same in found.values()
    ]


def first_choice(context: Context) -> int:
    """Returns the number of tokens before the first action in a context and its parents; 0 if there is no action."""
    chosen: list[int] = []
    line: Context | None = context
    while line is not None:
        chosen += line.action_positions[:1].tolist()
        line = line.parent[0] if line.parent is not None else None
    return min(chosen, default=0)


def judged(trajectory: Trajectory, judgement: Judgement) -> Trajectory:
    """Returns the trajectory with its judgement. Rewards of single actions are added to the rewards that the environment gave."""
    contexts = trajectory.contexts
    if judgement.steps:
        contexts = tuple(
            replace(c, rewards=(*c.rewards, *((a, name, value) for i, a, name, value in judgement.steps if i == n)))
            for n, c in enumerate(contexts)
        )
    # a failure of the rollout stays a failure, for every value of the reward
    reward = trajectory.reward if isinstance(trajectory.reward, Failed) else judgement.reward
    if any(c.logprobs is not None and not np.isfinite(c.logprobs).all() for c in contexts):
        reward = Failed("the log-probabilities of its actions are not finite, so the policy's weights have diverged or are broken")
    if isinstance(reward, float) and not np.isfinite(reward):
        reward = Failed(f"the reward is {reward}")
    return trajectory.but(contexts=contexts, reward=reward, components=judgement.components, extra=judgement.extra)
