"""Bootstrapped targets from transitions. Such a target is the reward plus the discounted value of the next state.

The rows come from a `TransitionReplay`. The rows have the streams `reward` and `done`. `done` is 1 if the episode terminated in this row; a truncated episode
is not done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.gae import action_rewards, last_value
from gradus.types import Frozen, Group, Trajectory
from gradus.types.control import EndValues, NextAction, NextQOfAll, NumberOf, QValues
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal, Values

ROWS = Frozen({"rows": "--selection TransitionReplay"})


def bootstrapped(rewards: np.ndarray, done: np.ndarray, following: np.ndarray, *, gamma: float) -> np.ndarray:
    """y = r + gamma (1 - done) V'.

    Args: rewards, following float [A], done bool [A].  Returns: float64 [A].  Raises: ValueError if shapes differ.
    """
    if not rewards.shape == done.shape == following.shape:
        raise ValueError(f"`rewards`, `done` and `following` must have the same shape, but their shapes are {rewards.shape}, {done.shape} and {following.shape}")
    return rewards.astype(np.float64) + gamma * (1.0 - done.astype(np.float64)) * following.astype(np.float64)


def _rows(groups: Sequence[Group]) -> list[Trajectory]:
    return [t for g in groups for t in g.trajectories]


def _spread(groups: Sequence[Group], rows: Sequence[Credited]) -> list[list[Credited]]:
    left = iter(rows)
    return [[next(left) for _ in g.trajectories] for g in groups]


@dataclass(frozen=True)
class SoftBellman:
    """y = r + gamma (1 - done) (min_j Q_j(s', a') - alpha log pi(a' | s')). The actor draws a' with its current weights.

    The minimum is over all heads of the player `target`.

    Reference: Haarnoja et al., Soft Actor-Critic, arXiv:1801.01290, eq. 8; two heads and their minimum: arXiv:1812.05905, section
    5.
    """

    gamma: float = 0.99
    temperature: str | None = "temperature"  # the player that holds log alpha; None: the field `alpha`
    alpha: float = 0.0  # the value of alpha if `temperature` is None
    target: str = "target"
    actor: str = "policy"
    entropy: bool = True  # False: the target has no term alpha log pi
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})
    asks: ClassVar[Frozen[str]] = ROWS
    names_players: ClassVar[tuple[str, ...]] = ("target", "actor")

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]", alpha="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        number = () if self.temperature is None else (NumberOf(player=self.temperature),)
        return (self._action, self._values, *number)

    @property
    def _action(self) -> NextAction:
        return NextAction(player=self.actor)

    @property
    def _values(self) -> QValues:
        return QValues(player=self.target, of=self._action)

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = []
        for t in _rows(groups):
            following = signals[self._values][t.id].astype(np.float64).min(1)
            if self.entropy:
                number = None if self.temperature is None else signals[NumberOf(player=self.temperature)][t.id].astype(np.float64)
                alpha = self.alpha if number is None else np.exp(number)
                following = following - alpha * signals[self._action][t.id][:, -1].astype(np.float64)
            targets = bootstrapped(t.stream("reward"), t.stream("done"), following, gamma=self.gamma)
            rows.append(Credited(np.zeros(t.actions), targets))
        return _spread(groups, rows)


@dataclass(frozen=True)
class Bellman:
    """y = r + gamma (1 - done) max_a Q(s', a) for actions of a `Choice`.

    With `double` the critic chooses the action, and the player `target` gives the value of this action.

    If there are several heads, Q is the smallest of their values. References: Mnih et al., Nature 518, 2015; double: van Hasselt et al.,
    arXiv:1509.06461, eq. 4.
    """

    gamma: float = 0.99
    double: bool = True
    target: str = "target"
    critic: str = "policy"
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})
    asks: ClassVar[Frozen[str]] = ROWS
    names_players: ClassVar[tuple[str, ...]] = ("target", "critic")

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (NextQOfAll(player=self.target), *((NextQOfAll(player=self.critic),) if self.double else ()))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = []
        for t in _rows(groups):
            values = signals[NextQOfAll(player=self.target)][t.id].min(1)
            choosing = signals[NextQOfAll(player=self.critic)][t.id].min(1) if self.double else values
            following = np.take_along_axis(values, choosing.argmax(1)[:, None], 1)[:, 0]
            rows.append(Credited(np.zeros(t.actions), bootstrapped(t.stream("reward"), t.stream("done"), following, gamma=self.gamma)))
        return _spread(groups, rows)


@dataclass(frozen=True)
class Expectile:
    """Fits the value V of a state to the value Q of the recorded action. The returns are min_j Q_j(s, a), and the weights are |tau - 1[Q < V]|.

    With squared errors the loss is smallest if V is the tau-expectile of Q over the recorded actions. With tau 0.5, this expectile is the mean of Q, and the
    loss is half of the squared error. Reference: Kostrikov et al., Implicit Q-Learning, arXiv:2110.06169, eq. 5.
    """

    tau: float = 0.7
    target: str = "target"
    critic: str = "value"
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})
    asks: ClassVar[Frozen[str]] = ROWS
    names_players: ClassVar[tuple[str, ...]] = ("target", "critic")

    def __post_init__(self) -> None:
        check_ranges(self, tau="(0, 1)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (QValues(player=self.target), Values(player=self.critic))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = []
        for t in _rows(groups):
            q = signals[QValues(player=self.target)][t.id].min(1).astype(np.float64)
            below = q < signals[Values(player=self.critic)][t.id]
            rows.append(Credited(np.zeros(t.actions), q, np.abs(self.tau - below.astype(np.float64))))
        return _spread(groups, rows)


def n_step(rewards: np.ndarray, values: np.ndarray, *, gamma: float, n: int, last_value: float = 0.0) -> np.ndarray:
    """R_t = sum_{k < n} gamma^k r_{t+k} + gamma^n V_{t+n}.

    If fewer than n steps remain, R_t is the discounted sum of the remaining rewards, plus gamma^(T-t) last_value.

    Args: rewards, values [T]. Returns: [T] float64. With n = 1, the result is the one-step target. With n = T, the result is the reward-to-go plus
    the discounted `last_value`.
    """
    if rewards.shape != values.shape:
        raise ValueError(f"`rewards` and `values` must have the same shape, but their shapes are {rewards.shape} and {values.shape}")
    count = len(rewards)
    following = np.append(values.astype(np.float64), last_value)
    return np.array(
        [
            sum(gamma ** (k - t) * rewards[k] for k in range(t, min(t + n, count))) + gamma ** (min(t + n, count) - t) * following[min(t + n, count)]
            for t in range(count)
        ],
        np.float64,
    )


@dataclass(frozen=True)
class NStep:
    """Gives the advantages R_t - V_t, where R_t is the n-step return. The critic is fitted to the same return. Mnih et al., A3C, arXiv:1602.01783, algorithm S3.

    If a limit cut an episode off, the value of the state after the cut replaces the missing rewards, as in `GAE`.
    """

    n: int = 5
    gamma: float = 0.99
    critic: str = "critic"
    gives: ClassVar[frozenset[str]] = frozenset({"returns"})

    def __post_init__(self) -> None:
        check_ranges(self, n="[1, inf)", gamma="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.critic), EndValues(player=self.critic))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = []
        for t in _rows(groups):
            values = signals[Values(player=self.critic)][t.id].astype(np.float64)
            returns = n_step(action_rewards(t), values, gamma=self.gamma, n=self.n, last_value=last_value(t, signals, self.critic))
            rows.append(Credited(returns - values, returns))
        return _spread(groups, rows)
