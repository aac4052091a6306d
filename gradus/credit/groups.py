"""Advantages that compare trajectories within a group or over the batch. Each trajectory gets one number.

Means and deviations are over all trajectories of a group. This includes trajectories that no update uses (`trained` False), because their rewards measure the
same problem; no update reads their advantages. Only `ProbeBaseline` treats trained and untrained trajectories differently. `PoolBaseline` also counts the
trajectories that the selection dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.types import Frozen, Group
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

Scale = Literal["population", "sample", "none"]
Baseline = Literal["group", "others", "batch"]


def group_relative(rewards: np.ndarray, *, scale: Scale = "population") -> np.ndarray:
    """A_i = (r_i - mean r) / std r over the group. With scale "none", A_i = r_i - mean r.

    Args: rewards [G]. Returns: [G] float64. All advantages are 0 for a group with one trajectory. The advantages are also 0 if the deviation is at most 1e-12
    times the largest |reward|. No epsilon is added to the deviation. Reference: GRPO, arXiv:2402.03300, section 4.1.2; the form without std comes
    from arXiv:2503.20783 (Dr GRPO). The text of GRPO does not name the kind of std. The default here is "population"; most trainers use "sample".
    """
    rewards = np.asarray(rewards, dtype=np.float64)
    if len(rewards) < 2 or np.all(rewards == rewards[0]):
        return np.zeros_like(rewards)
    centred = rewards - rewards.mean()
    if scale == "none":
        return centred
    deviation = rewards.std(ddof={"population": 0, "sample": 1}[scale])
    # A deviation that is only a rounding error is no signal. The squares of tiny differences may also underflow to zero.
    return centred / deviation if deviation > 1e-12 * np.abs(rewards).max() else np.zeros_like(rewards)


def leave_one_out(rewards: np.ndarray) -> np.ndarray:
    """A_i = r_i - mean of the other rewards = G/(G-1) (r_i - mean r); zeros for a group with one trajectory or with equal rewards.

    Reference: Ahmadian et al., Back to Basics (RLOO), arXiv:2402.14740, eq. 8.
    """
    rewards = np.asarray(rewards, dtype=np.float64)
    count = len(rewards)
    if count < 2 or np.all(rewards == rewards[0]):
        return np.zeros_like(rewards)
    return rewards - (rewards.sum() - rewards) / (count - 1)


def batch_relative(rewards: Sequence[np.ndarray], *, baseline: Baseline = "group", scale: Scale = "population") -> list[np.ndarray]:
    """A_i = (r_i - b_i) / std, where std is the deviation of r - b over all samples of the batch. With scale "none", A_i = r_i - b_i.

    Args: `rewards`: one array [G] per group. `baseline` selects the mean reward b: the mean over the group ("group"), over the other samples of the group
    ("others"), or over the batch ("batch"). Returns: float64 [G] for every group; zeros if r - b is the same for all samples.
    Reference: REINFORCE++, arXiv:2501.03262 (global normalisation, without and with a group baseline); ScaleRL, arXiv:2510.13786.
    """
    if not rewards:
        return []
    if baseline == "batch":
        centred = np.split(group_relative(np.concatenate(rewards), scale="none"), np.cumsum([len(r) for r in rewards])[:-1])
    else:
        centred = [leave_one_out(r) if baseline == "others" else group_relative(r, scale="none") for r in rewards]
    everything = np.concatenate(centred)
    if scale == "none" or len(everything) < 2:
        return centred
    deviation = everything.std(ddof={"population": 0, "sample": 1}[scale])
    return [c / deviation if deviation > 0 else np.zeros_like(c) for c in centred]


def probe_baseline(group: Group) -> np.ndarray:
    """A_i = r_i minus the mean reward of the group's probes. A probe is a trajectory that no update uses.

    The advantage is 0 for a probe, and for all trajectories of a group without probes.
    """
    probes = np.array([not t.trained for t in group.trajectories])
    if not probes.any():
        return np.zeros(len(probes))
    return np.where(probes, 0.0, group.rewards - group.rewards[probes].mean())


def against_pool(group: Group) -> np.ndarray:
    """Returns the rewards minus the mean reward of the group's pool, float64 [G]; zeros if all rewards of the pool are equal.

    Outcomes of the pool that are not numbers do not count. A group without a pool is its own pool.
    """
    numbers = [float(r) for r in group.pool if isinstance(r, int | float) and math.isfinite(r)]
    pool = np.array(numbers) if numbers else group.rewards
    return np.zeros(len(group.trajectories)) if np.all(pool == pool[0]) else group.rewards - pool.mean()


def spread(groups: Sequence[Group], advantages: Sequence[np.ndarray]) -> list[list[Credited]]:
    """Gives every action the advantage of its trajectory."""
    return [
        [Credited(np.full(t.actions, a, np.float64)) for t, a in zip(group.trajectories, row, strict=True)]
        for group, row in zip(groups, advantages, strict=True)
    ]


@dataclass(frozen=True)
class GroupRelative:
    """GRPO's advantage: the reward standardised within the group."""

    scale: Scale = "population"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [group_relative(g.rewards, scale=self.scale) for g in groups])


@dataclass(frozen=True)
class LeaveOneOut:
    """RLOO's advantage: the reward minus the mean reward of the group's other trajectories."""

    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [leave_one_out(g.rewards) for g in groups])


@dataclass(frozen=True)
class BatchBaseline:
    """REINFORCE's advantage: the reward minus the mean over the whole batch ("mean"), or the reward itself ("none")."""

    baseline: Literal["mean", "none"] = "mean"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rewards = [g.rewards for g in groups]
        mean = np.concatenate(rewards).mean() if rewards and self.baseline == "mean" else 0.0
        return spread(groups, [r - mean for r in rewards])


@dataclass(frozen=True)
class ProbeBaseline:
    """The reward minus the mean reward of the group's probes. Probes are trajectories that no update uses, such as a greedy answer."""

    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"probes": "--rollout WithGreedyBaseline"})

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [probe_baseline(g) for g in groups])


@dataclass(frozen=True)
class PoolBaseline:
    """The reward minus the mean reward of all answers that were sampled for the problem, including answers that no update uses.

    Reference: Xiong et al., Reinforce-Ada, arXiv:2510.04996v1, section 2.3.
    """

    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [against_pool(g) for g in groups])


@dataclass(frozen=True)
class LogReward:
    """Gives every action beta * log(reward of its trajectory). Rewards below `least` count as `least`."""

    beta: float = 1.0
    least: float = 1e-3
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)", least="(0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [self.beta * np.log(np.maximum(g.rewards, self.least)) for g in groups])


@dataclass(frozen=True)
class Constant:
    """Gives every action the advantage 1. This rule is for imitation, and for objectives that read rewards themselves."""

    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [np.ones(len(g.trajectories)) for g in groups])
