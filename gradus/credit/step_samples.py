"""Credit for episodes in which each step is a sample: the statistics count steps, and updates may use only the steps with high entropy.

A step is a turn of an episode: all tokens of one answer of the agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import Scale, group_relative, spread
from gradus.credit.turns import turns_of
from gradus.types import Frozen, Group
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Entropy, Signal

ENTROPIES = Entropy(fresh=True)


def step_relative(rewards: np.ndarray, steps: np.ndarray, *, scale: Scale = "population") -> np.ndarray:
    """A_i = (R_i - mean) / std, where a trajectory with n steps counts n times in the mean and in std. Returns [G].

    Args: rewards [G]; steps [G]: the numbers of steps, each at least 1.

    >>> step_relative(np.array([1.0, 0.0]), np.array([1, 3])).round(3).tolist()
    [1.732, -0.577]
    """
    each = group_relative(np.repeat(rewards, steps), scale=scale)
    return each[np.cumsum(steps) - steps]


@dataclass(frozen=True)
class StepRelative:
    """The reward standardised over the step samples of the group, so a trajectory with n steps counts n times."""

    scale: Scale = "population"
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Frozen[str]] = Frozen({"turns": "--rollout Episodes"})
    plays: ClassVar[str] = "episodes"

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        counts = [np.array([max(len(turns_of(t).lengths), 1) for t in g.trajectories]) for g in groups]
        return spread(groups, [step_relative(g.rewards, n, scale=self.scale) for g, n in zip(groups, counts, strict=True)])


def high_steps(entropies: np.ndarray, top: float) -> np.ndarray:
    """Returns [N]: whether the entropy of a step is at least the (1 - top) quantile of all N steps.

    If 1 - top falls between two neighbouring values, the quantile is interpolated. If several values are equal, all or none of them are kept.

    >>> high_steps(np.array([0.1, 0.9, 0.5, 0.3, 0.7]), 0.8).tolist()
    [False, True, True, True, True]
    """
    return np.asarray(entropies >= np.quantile(entropies, 1 - top)) if len(entropies) else np.zeros(0, bool)


@dataclass(frozen=True)
class HighEntropySteps:
    """Gives weight 0 to each step with a mean token entropy below the (1 - top) quantile of its group. All other credit comes from `rule`. The
    entropies are computed with the policy at the start of the update. Steps with weight 0 still count in the statistics of `rule`. An
    average with counted="weighted" divides by the remaining tokens. Groups without steps stay as they are.
    """

    rule: Credit = StepRelative()
    top: float = 0.8  # share of the steps that training uses, if all entropies differ
    asks: ClassVar[Frozen[str]] = Frozen({"turns": "--rollout Episodes"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, top="(0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.rule.needs, ENTROPIES)

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [self._group(g, row, signals) for g, row in zip(groups, rows, strict=True)]

    def _group(self, group: Group, row: Sequence[Credited], signals: Signals) -> list[Credited]:
        episodes = [turns_of(t) for t in group.trajectories]
        means = [e.sums(signals[ENTROPIES][t.id].astype(np.float64)) / e.lengths for e, t in zip(episodes, group.trajectories, strict=True)]
        cuts = np.cumsum([len(m) for m in means])[:-1]
        masks = np.split(high_steps(np.concatenate(means), self.top).astype(np.float64), cuts) if means else []
        return [c.weighted(e.spread(m)) for c, e, m in zip(row, episodes, masks, strict=True)]
