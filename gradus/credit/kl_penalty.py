"""A KL penalty in the reward, for any credit rule. An estimate of the KL to a reference is subtracted from the reward of every action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.types import Group, Trajectory
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import LogProbs, Signal

Estimator = Literal["k1", "k2", "k3"]


def kl_costs(logprobs: np.ndarray, reference_logprobs: np.ndarray, *, estimator: Estimator) -> np.ndarray:
    """Returns the KL estimate of every action, float64 [A], in nats. With d = log pi_ref - log pi: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1.

    The expected value of k1 and of k3 is the KL. If the penalty is in the reward, only k1 gives the gradient of the KL, which is E[k1 grad log pi]. With k3,
    the part exp(d) adds -grad KL(pi_ref || pi). Reference: Schulman, Approximating KL Divergence (2020).
    """
    d = np.asarray(reference_logprobs, np.float64) - np.asarray(logprobs, np.float64)
    costs = {"k1": -d, "k2": d * d / 2, "k3": np.expm1(d) - d}
    if estimator not in costs:
        raise ValueError(f'unknown KL estimator "{estimator}"; known: k1, k2, k3')
    return costs[estimator]


def charged(trajectory: Trajectory, costs: np.ndarray) -> Trajectory:
    """Returns the trajectory with the additional rewards -costs [A] at its actions (component "kl"). The sum of the costs is subtracted from the trajectory's
    reward.
    """
    pieces = np.split(costs, np.cumsum([c.actions for c in trajectory.contexts])[:-1])
    contexts = tuple(
        replace(c, rewards=(*c.rewards, *((i, "kl", -float(cost)) for i, cost in enumerate(piece))))
        for c, piece in zip(trajectory.contexts, pieces, strict=True)
    )
    return trajectory.but(contexts=contexts, reward=trajectory.value - float(costs.sum()))


@dataclass(frozen=True)
class KLPenalty:
    """Subtracts coefficient * KL(policy || player) from the reward of each action, then computes the advantages of `rule`.

    If the rule computes a separate value for each action (RewardToGo, GAE), the advantage of an action contains the penalties of this action and of all later
    actions. If the rule computes one value for each trajectory (GroupRelative, LeaveOneOut, ...), the reward of a trajectory contains the sum of its
    penalties. Only advantages include the
    penalty. Components and metrics keep the original reward.
    """

    rule: Credit = GroupRelative()
    coefficient: float = 0.01  # 0: no penalty
    estimator: Estimator = "k1"
    player: str = "reference"  # the reference: a frozen player, a synced copy or a moving average

    def __post_init__(self) -> None:
        check_ranges(self, coefficient="[0, inf)")

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.rule.needs, LogProbs(), LogProbs(player=self.player))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        paid = [g.but(trajectories=tuple(charged(t, self.costs(t, signals)) for t in g.trajectories)) for g in groups]
        return assigned(self.rule, paid, signals)

    def costs(self, trajectory: Trajectory, signals: Signals) -> np.ndarray:
        """Returns the penalty of every action, float64 [A]."""
        ours, theirs = signals[LogProbs()][trajectory.id], signals[LogProbs(player=self.player)][trajectory.id]
        return self.coefficient * kl_costs(ours, theirs, estimator=self.estimator)
