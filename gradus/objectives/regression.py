"""The regression of log-ratios. The loss of a trajectory is the square of the difference between a target and beta times the log-ratio to another player.

The policy that maximises E r - beta KL(pi | pi_ref) satisfies beta (log pi - log pi_ref) = r - V for every answer. The value V depends only on the problem.
So the advantage r - V is a target for each answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.objectives.aggregation import pulling
from gradus.objectives.scores import trajectory_means, trajectory_sums
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, LogProbs, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


def regression_errors(targets: Tensor, log_ratios: Tensor, *, beta: float) -> Tensor:
    """Returns target - beta * log-ratio [U], with gradient through `log_ratios` [U], nats. `targets` [U] are in units of the reward."""
    check_same_shape(targets=targets, log_ratios=log_ratios)
    return targets - beta * log_ratios


@dataclass(frozen=True)
class LogRatioRegression:
    """coefficient * mean over trajectories of (target - beta * (log pi - log pi_player))^2.

    The log-ratio of a trajectory is the sum of its actions' log-ratios, and its target is the mean of its actions' advantages. The credit rule gives these
    targets: the reward minus an optimal value. Without a `player`, the denominator of the log-ratio is the policy at the start of the update.
    """

    beta: float = 0.1  # temperature of the KL, in units of the reward per nat
    player: str | None = "reference"  # None: the policy at the start of the update
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # the square depends on all actions of a trajectory together
    unit: ClassVar[str] = "trajectory"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)", coefficient="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return () if self.player is None else (LogProbs(player=self.player),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs = outputs[LogProb()]
        other = batch.old.get(LogProb(), logprobs.detach()) if self.player is None else batch.signals[LogProbs(player=self.player)]
        log_ratios = pulling(logprobs, batch.weight) - other
        ids = torch.unique(batch.trajectory)
        targets, sums = (of(rows, batch).index_select(0, ids) for of, rows in ((trajectory_means, batch.advantages), (trajectory_sums, log_ratios)))
        weights = torch.full_like(targets, 1.0 / max(batch.counts[self.source].trajectories, 1))
        return fitted_loss(targets, sums, weights, beta=self.beta, coefficient=self.coefficient)


def fitted_loss(
    targets: Tensor, log_ratios: Tensor, weights: Tensor, *, beta: float, coefficient: float
) -> tuple[Tensor, dict[str, Tally]]:
    """Returns coefficient * sum of weight * error^2 (see `regression_errors`), and the metrics. Args: three tensors [U]."""
    errors = regression_errors(targets, log_ratios, beta=beta)
    return coefficient * (weights * errors.square()).sum(), {"fit_error": tally(errors.abs()), "fit_log_ratio": tally(log_ratios)}
