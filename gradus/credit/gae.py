"""Generalised advantage estimation (GAE) over the actions of a trajectory, with per-action rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.types import Ended, Group, Trajectory
from gradus.types.control import EndValues, shows_more
from gradus.types.parts import Credited, Signals
from gradus.types.pieces import continues
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal, Values


def gae(rewards: np.ndarray, values: np.ndarray, *, gamma: float, lam: float, last_value: float = 0.0) -> np.ndarray:
    """A_t = sum_k (gamma lam)^k d_{t+k} with d_t = r_t + gamma V_{t+1} - V_t.

    V after the last action is `last_value`, which is 0 if the episode ended.

    Args: rewards, values [A].  Returns: the advantages [A], float64. The target of the critic is A + values.
    Raises: ValueError if the shapes differ.  Reference: Schulman et al., arXiv:1506.02438, eq. 16.
    """
    rewards, values = np.asarray(rewards, np.float64), np.asarray(values, np.float64)
    if rewards.shape != values.shape:
        raise ValueError(f"`rewards` and `values` must have the same shape, but their shapes are {rewards.shape} and {values.shape}")
    deltas = rewards + gamma * np.append(values[1:], last_value) - values
    advantages = np.zeros_like(deltas)
    running = 0.0
    for t in range(len(deltas) - 1, -1, -1):
        running = deltas[t] + gamma * lam * running
        advantages[t] = running
    return advantages


def discounted(rewards: np.ndarray, *, gamma: float) -> np.ndarray:
    """R_t = sum_k gamma^k r_{t+k}. This is GAE with lam = 1 and all values 0."""
    return gae(rewards, np.zeros_like(np.asarray(rewards, np.float64)), gamma=gamma, lam=1.0)


def action_rewards(trajectory: Trajectory) -> np.ndarray:
    """Returns [A]: the reward of each action.

    If a part of the trajectory's reward belongs to no action, the last action gets this part, too. So the [A] numbers add up to the trajectory's reward.
    """
    rewards = np.zeros(trajectory.actions)
    start = 0
    for context in trajectory.contexts:
        for action, _, value in context.rewards:
            rewards[start + action] += value
        start += context.actions
    if len(rewards):
        rewards[-1] += trajectory.value - rewards.sum()
    return rewards


def whiten(rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Shifts and scales all rows together to mean 0 and population deviation 1. Returns zeros if all values are equal (up to 1e-12 times the largest
    value).
    """
    everything = np.concatenate(list(rows)) if rows else np.zeros(0)
    if not len(everything) or everything.std() <= 1e-12 * np.abs(everything).max():  # such a small deviation is only a rounding error
        return [np.zeros_like(r) for r in rows]
    return [(r - everything.mean()) / everything.std() for r in rows]


def last_value(trajectory: Trajectory, signals: Signals, critic: str) -> float:
    """Returns the value after the last action. If a limit cut the episode off, this is the value of the next state. If the episode ended, it is 0.

    If a later step continues an answer (`types.pieces`), the value before its last action replaces the value after its cut.
    Reference for this case: Fan et al., Truncated Proximal Policy Optimization, arXiv:2506.15050 (extended GAE).

    A trajectory was cut off if its end is TRUNCATED or LENGTH and its last context has arrays after the last action. A text answer that reached its limit has
    nothing after its last action, so it counts as ended.
    """
    if continues(trajectory):
        values = signals[Values(player=critic)][trajectory.id]
        return float(values[-1]) if len(values) else 0.0
    if trajectory.ended not in (Ended.TRUNCATED, Ended.LENGTH):
        return 0.0
    rows = signals.get(EndValues(player=critic), {}).get(trajectory.id, np.zeros(0))
    return float(rows[-1]) if len(rows) and shows_more(trajectory.contexts[-1]) else 0.0


@dataclass(frozen=True)
class GAE:
    """Computes PPO's advantages from a critic's values. `KLPenalty(GAE())` adds a KL penalty to the reward.

    If a limit cut an episode off, the value of the state after the cut replaces the rewards that are missing (see `last_value`).
    """

    gamma: float = 1.0
    lam: float = 0.95
    whitened: bool = True  # over all actions of the batch
    critic: str = "critic"
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]", lam="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.critic), EndValues(player=self.critic))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows, returns = [], []
        for trajectory in (t for g in groups for t in g.trajectories):
            rewards, values = action_rewards(trajectory), signals[Values(player=self.critic)][trajectory.id].astype(np.float64)
            advantages = gae(rewards, values, gamma=self.gamma, lam=self.lam, last_value=last_value(trajectory, signals, self.critic))
            rows.append(advantages)
            returns.append(advantages + values)
        flat = iter(zip(whiten(rows) if self.whitened else rows, returns, strict=True))
        return [[Credited(*next(flat)) for _ in g.trajectories] for g in groups]


@dataclass(frozen=True)
class LengthAdaptiveGAE:
    """GAE with a lam that grows with the answer's length: lam = max(0, 1 - 1 / (alpha * actions)).

    So in a longer answer, the reward has an effect on more of the earlier actions. The weights of later errors sum to about alpha * actions. The number lam
    is 0 for answers of up to 1 / alpha actions. VAPO, arXiv:2504.05118, section 4.2.
    """

    alpha: float = 0.05
    gamma: float = 1.0
    whitened: bool = True  # over all actions of the batch
    critic: str = "critic"
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})

    def __post_init__(self) -> None:
        check_ranges(self, alpha="(0, inf)", gamma="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.critic), EndValues(player=self.critic))

    def lam(self, actions: int) -> float:
        """Returns lam for an answer with this number of actions."""
        return max(0.0, 1 - 1 / (self.alpha * actions))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        trajectories = [t for g in groups for t in g.trajectories]
        values = [signals[Values(player=self.critic)][t.id].astype(np.float64) for t in trajectories]
        rows = [
            gae(action_rewards(t), v, gamma=self.gamma, lam=self.lam(max(t.actions, 1)), last_value=last_value(t, signals, self.critic))
            for t, v in zip(trajectories, values, strict=True)
        ]
        returns = [a + v for a, v in zip(rows, values, strict=True)]
        flat = iter(zip(whiten(rows) if self.whitened else rows, returns, strict=True))
        return [[Credited(*next(flat)) for _ in g.trajectories] for g in groups]
