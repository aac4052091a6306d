"""Credit for chunks of actions: one advantage per action of a chunk, or one per chunk.

A turn of an environment is a chunk of C actions of M tokens each. The stream `step` of a token is the index of its action within the chunk, or -1 if the
environment did not execute this action. Without this stream a turn counts as one action.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.credit.gae import GAE, action_rewards, gae, last_value, whiten
from gradus.credit.groups import GroupRelative
from gradus.types import Group, Trajectory, UserError
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Signal, Values

Level = Literal["action", "chunk"]


def units(trajectory: Trajectory, level: Level) -> np.ndarray:
    """Returns int64 [A]: for every token, the number of its action (`level` "action") or of its chunk ("chunk"), from 0 on; -1 if the action was not
    executed.

    At the level "chunk", all tokens of a chunk have the same number. Raises UserError if the tokens have no turns.
    """
    if any(c.actions and "turn" not in c.streams for c in trajectory.contexts):
        raise UserError(f"trajectory {trajectory.id} has no turns, but this credit rule needs them; take a task with an environment, and set --rollout Episodes")
    turn = trajectory.stream("turn") if trajectory.contexts else np.zeros(0, np.int32)
    step = np.concatenate([c.streams.get("step", np.zeros(c.actions, np.int32)) for c in trajectory.contexts] or [np.zeros(0, np.int32)])
    changes = np.diff(turn) != 0 if level == "chunk" else (np.diff(turn) != 0) | (np.diff(step) != 0)
    found = np.cumsum(np.append(0, changes))[: len(turn)]
    if level == "action":
        found[step < 0] = -1
        found[step >= 0] = np.unique(found[step >= 0], return_inverse=True)[1]
    return found


def until_success(found: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Returns the weights [A] of tokens: 1 up to the end of the first unit with a reward of 1 or more, and 0 for later units and for tokens without a unit
    (-1).

    Args: found [A]: the unit of every token, see `units`; rewards [A]: the reward at every token.

    >>> until_success(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 0, 1.0, 0, 0])).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    """
    sums = np.bincount(found[found >= 0], rewards[found >= 0])
    done = np.flatnonzero(sums >= 1.0)
    last = done[0] if len(done) else len(sums)
    return ((found >= 0) & (found <= last)).astype(np.float64)


@dataclass(frozen=True)
class UntilSuccess:
    """Gives weight 0 to the actions, or to the chunks, after the first success of an episode.

    A success is an action, or a chunk, with a reward of 1 or more. At the level "chunk", the whole chunk that contains the success keeps its weight. At the
    level "action", actions that were not executed also get weight 0. All other weights, and the advantages and returns, come from `rule`.
    `SequenceMean(counted="weighted")` divides the loss of an episode by the number of its remaining tokens.
    Reference: the trainer released with RLinf-VLA (arXiv:2510.06710).
    """

    rule: Credit = GroupRelative("sample")
    level: Level = "action"
    asks_right: ClassVar[str] = "GroupRelative"  # the part to use instead if no episode is marked as right

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [[self._masked(c, t) for c, t in zip(row, g.trajectories, strict=True)] for row, g in zip(rows, groups, strict=True)]

    def _masked(self, credited: Credited, trajectory: Trajectory) -> Credited:
        return credited.weighted(until_success(units(trajectory, self.level), environment_rewards(trajectory)))


def environment_rewards(trajectory: Trajectory) -> np.ndarray:
    """Returns the environment's reward at every token, float64 [A]."""
    out, start = np.zeros(trajectory.actions), 0
    for context in trajectory.contexts:
        for at, name, value in context.rewards:
            out[start + at] += value if name == "environment" else 0.0
        start += context.actions
    return out


@dataclass(frozen=True)
class ChunkGAE:
    """GAE over actions or chunks in place of tokens. All tokens of an action (or chunk) have its advantage, its return, and the value of its first token.

    At the level "chunk", the reward of a chunk is the sum of the rewards of its actions. At the level "action", the critic needs a value for each action of a
    chunk (`Fresh(outputs="value", each_step=True)`), and actions that were not executed have the weight 0. If a limit cut the episode off, the value after
    the cut replaces the missing rewards, as in `GAE`. Whitening counts every action, or every chunk, once.
    """

    gamma: float = 0.99
    lam: float = 0.95
    level: Level = "action"
    whitened: bool = True  # over all actions (or chunks) of the batch
    critic: str = "critic"
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]", lam="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return GAE(critic=self.critic).needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        trajectories = [t for g in groups for t in g.trajectories]
        values = [signals[Values(player=self.critic)][t.id].astype(np.float64) for t in trajectories]
        found = [units(t, self.level) for t in trajectories]
        plain = [self._units(t, f, v, last_value(t, signals, self.critic)) for t, f, v in zip(trajectories, found, values, strict=True)]
        advantages = whiten([a for a, _ in plain]) if self.whitened else [a for a, _ in plain]
        flat = iter(_spread(*row) for row in zip(found, advantages, [r for _, r in plain], values, strict=True))
        return [[next(flat) for _ in g.trajectories] for g in groups]

    def _units(self, trajectory: Trajectory, found: np.ndarray, values: np.ndarray, after: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the advantages and the returns of the units of a trajectory, float64 [U] each."""
        inside = found >= 0
        rewards = action_rewards(trajectory)
        sums = np.bincount(found[inside], rewards[inside])
        if len(sums):
            sums[-1] += rewards[~inside].sum()  # the rest of the reward is at the last token, even if its action was not executed
        first = values[inside][np.unique(found[inside], return_index=True)[1]]
        advantages = gae(sums, first, gamma=self.gamma, lam=self.lam, last_value=after)
        return advantages, advantages + first


def _spread(found: np.ndarray, advantages: np.ndarray, returns: np.ndarray, values: np.ndarray) -> Credited:
    """Gives every token the advantage and the return of its unit. A token without a unit has advantage 0, its own value as return, and weight 0."""
    inside = found >= 0
    if inside.all():
        return Credited(advantages[found], returns[found])
    at = np.maximum(found, 0)
    return Credited(np.where(inside, advantages[at], 0.0), np.where(inside, returns[at], values), inside.astype(np.float64))
