"""The regression of log-ratios: least squares between a target and beta times a log-ratio to another player.

There is one square per trajectory, or one per pair of trajectories.

The policy that maximises E r - beta KL(pi | pi_ref) satisfies beta (log pi - log pi_ref) = r - V for every answer. The value V depends only on the problem.
So the advantage r - V is a target for each answer, and the difference of two rewards is a target for each pair of answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from gradus.objectives.aggregation import pulling
from gradus.objectives.preference import members
from gradus.objectives.returned import check_rows
from gradus.objectives.scores import trajectory_means, trajectory_sums
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, LogProbs, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


def regression_errors(targets: Tensor, log_ratios: Tensor, *, beta: float) -> Tensor:
    """Returns target - beta * log-ratio [U], with gradient through `log_ratios` [U], nats. `targets` [U] are in units of the reward."""
    check_same_shape(targets=targets, log_ratios=log_ratios)
    return targets - beta * log_ratios


class Fitted(NamedTuple):
    """The U units of a regression. `weights` are the coefficients of the units in the loss. If each coefficient is 1 / U, the loss is the mean over units."""

    targets: Tensor  # [U]
    log_ratios: Tensor  # [U], with gradient
    weights: Tensor  # [U]


class Units(Protocol):
    """Combines the actions of a batch into units. The log-ratio of each unit is fitted to its target."""

    @property
    def separable(self) -> bool:
        """Whether every unit is one action."""
        ...

    @property
    def unit(self) -> str:
        """Names the part of a batch that must stay whole in a mini-batch: "trajectory" or "group"."""
        ...

    def fitted(self, targets: Tensor, log_ratios: Tensor, batch: Batch, source: str) -> Fitted:
        """Returns the units. Args: `targets`, `log_ratios` [A] of the actions of `source`; only `log_ratios` has a gradient."""
        ...


@dataclass(frozen=True)
class Trajectories:
    """Every trajectory is a unit. The log-ratio of a trajectory is the sum of its actions' log-ratios, and its target is the mean of its actions'
    targets."""

    separable: ClassVar[bool] = False  # the square depends on all actions of a trajectory together
    unit: ClassVar[str] = "trajectory"

    def fitted(self, targets: Tensor, log_ratios: Tensor, batch: Batch, source: str) -> Fitted:
        ids = torch.unique(batch.trajectory)
        means, sums = (of(rows, batch).index_select(0, ids) for of, rows in ((trajectory_means, targets), (trajectory_sums, log_ratios)))
        return Fitted(means, sums, torch.full_like(means, 1.0 / max(batch.counts[source].trajectories, 1)))


@dataclass(frozen=True)
class Pairs:
    """Every pair of trajectories of a group is a unit.

    The target of a pair is the difference of the two trajectories' targets. The log-ratio of a pair is the difference of their log-ratios.

    So any part of a target that is equal for all trajectories of a group cancels. The loss is averaged over the pairs of a group, then over groups. A group
    with one trajectory has no pairs and counts as a group with loss 0.
    """

    separable: ClassVar[bool] = False
    unit: ClassVar[str] = "group"

    def fitted(self, targets: Tensor, log_ratios: Tensor, batch: Batch, source: str) -> Fitted:
        means, sums = trajectory_means(targets, batch), trajectory_sums(log_ratios, batch)
        groups = [list(combinations(ids, 2)) for ids in members(batch)]
        pairs = torch.tensor([pair for group in groups for pair in group], dtype=torch.long).reshape(-1, 2)
        alike = means.new_tensor([len(group) for group in groups for _ in group])
        gap, lead = (x.index_select(0, pairs[:, 0]) - x.index_select(0, pairs[:, 1]) for x in (means, sums))
        return Fitted(gap, lead, 1.0 / (alike * max(batch.counts[source].groups, 1)))


@dataclass(frozen=True)
class LogRatioRegression:
    """coefficient * mean over units of (target - beta * (log pi - log pi_player))^2. The target of an action is its advantage.

    Without a `player`, the log-ratio compares with the policy at the start of the update. The credit rule gives the targets: the reward minus an optimal value.
    If the units are pairs, the reward itself is enough, because the difference removes the value.
    """

    beta: float = 0.1  # temperature of the KL, in units of the reward per nat
    units: Units = Trajectories()
    player: str | None = "reference"  # None: the policy at the start of the update
    coefficient: float = 1.0
    source: str = "policy"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)", coefficient="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return () if self.player is None else (LogProbs(player=self.player),)

    @property
    def separable(self) -> bool:
        return self.units.separable

    @property
    def unit(self) -> str:
        return self.units.unit

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs = outputs[LogProb()]
        other = batch.old.get(LogProb(), logprobs.detach()) if self.player is None else batch.signals[LogProbs(player=self.player)]
        log_ratios = pulling(logprobs, batch.weight) - other
        found = self.units.fitted(batch.advantages, log_ratios, batch, self.source)
        check_rows(self.units, "fitted", found.log_ratios, found.targets.shape, "unit", of=log_ratios)
        errors = regression_errors(found.targets, found.log_ratios, beta=self.beta)
        seen = {"fit_error": tally(errors.abs()), "fit_log_ratio": tally(found.log_ratios)}
        return self.coefficient * (found.weights * errors.square()).sum(), seen
