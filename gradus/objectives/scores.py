"""A score is one number per trajectory under the policy. Preferences and rankings compare scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from gradus.objectives.returned import check_rows
from gradus.types import Frozen, UserError
from gradus.types.batch import Batch, segment_sum
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProbs, Signal


class Score(Protocol):
    @property
    def needs(self) -> tuple[Signal, ...]: ...

    def scores(self, logprobs: Tensor, batch: Batch) -> Tensor:
        """Returns [N], by trajectory id, with gradient through `logprobs` [A]; 0 for trajectories without actions in the batch."""
        ...


def scored(score: Score, logprobs: Tensor, batch: Batch) -> Tensor:
    """Returns the scores [N]. Raises UserError if the scores have another shape or no gradient."""
    scores = score.scores(logprobs, batch)
    check_rows(score, "scores", scores, (len(batch.trajectories),), "trajectory", of=logprobs)
    return scores


def trajectory_sums(values: Tensor, batch: Batch) -> Tensor:
    """Returns [N]: the sums of `values` [A] over the actions of each trajectory."""
    return segment_sum(values, batch.trajectory, len(batch.trajectories))


def trajectory_means(values: Tensor, batch: Batch) -> Tensor:
    """Returns [N]: the means of `values` [A] over the actions of each trajectory; 0 for trajectories without actions in the batch."""
    counts = trajectory_sums(torch.ones_like(values), batch)
    return trajectory_sums(values, batch) / counts.clamp(min=1)


@dataclass(frozen=True)
class LogRatio:
    """Sums log pi - log pi_player over a trajectory.

    For one reward, the policy is optimal under a KL penalty with the factor beta. Beta times this score equals that reward, up to a constant.
    """

    player: str = "reference"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.player),)

    def scores(self, logprobs: Tensor, batch: Batch) -> Tensor:
        return trajectory_sums(logprobs - batch.signals[LogProbs(player=self.player)], batch)


def shared_lengths(batch: Batch) -> Tensor:
    """Returns [A]: for every action, the number of actions of the shortest trajectory of its group."""
    groups = int(batch.group.max()) + 1 if batch.actions else 0
    least = torch.full((groups,), torch.inf).to(batch.in_trajectory).scatter_reduce(0, batch.group, batch.in_trajectory, "amin")
    return least.index_select(0, batch.group)


@dataclass(frozen=True)
class LengthDiscounted(LogRatio):
    """Sums log pi - log pi_player over a trajectory. Actions beyond the length of the shortest trajectory of the group have the factor alpha.

    Reference: LD-DPO, arXiv:2409.06411.
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, 1]")

    def scores(self, logprobs: Tensor, batch: Batch) -> Tensor:
        ratios = logprobs - batch.signals[LogProbs(player=self.player)]
        return trajectory_sums(torch.where(batch.position < shared_lengths(batch), ratios, self.alpha * ratios), batch)


@dataclass(frozen=True)
class TurnMeans:
    """Takes the mean of log pi - log pi_player over the actions of each turn, and adds up these means. So the number of tokens of a turn has no effect."""

    player: str = "reference"
    asks: ClassVar[Mapping[str, str]] = Frozen({"turns": "--rollout Episodes"})

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.player),)

    def scores(self, logprobs: Tensor, batch: Batch) -> Tensor:
        if any("turn" not in batch.contexts[i].streams for i in torch.unique(batch.context).tolist()):
            raise UserError("TurnMeans averages over turns, but a trajectory has no turns; take a task with an environment, and set --rollout Episodes")
        ratios = logprobs - batch.signals[LogProbs(player=self.player)]
        turns = torch.unique(torch.stack([batch.trajectory, batch.stream("turn").long()]), dim=1, return_inverse=True)[1]
        counts = torch.bincount(turns).to(ratios)
        return trajectory_sums(ratios / counts.index_select(0, turns), batch)


@dataclass(frozen=True)
class MeanLogProb:
    """Takes the mean of log pi over a trajectory: a log-likelihood normalised by length, without a reference."""

    needs: ClassVar[tuple[Signal, ...]] = ()

    def scores(self, logprobs: Tensor, batch: Batch) -> Tensor:
        return trajectory_means(logprobs, batch)


@dataclass(frozen=True)
class LogOdds:
    """log(p / (1 - p)), where log p is the mean of log pi over a trajectory. The score has no gradient if 1 - p is below 1e-7."""

    needs: ClassVar[tuple[Signal, ...]] = ()

    def scores(self, logprobs: Tensor, batch: Batch) -> Tensor:
        return log_odds(trajectory_means(logprobs, batch))


def log_odds(logprobs: Tensor) -> Tensor:
    """Returns log p - log(1 - p) from `logprobs` = log p <= 0. The value log p is clamped to at most -1e-7, because p = 1 has no finite odds."""
    held = logprobs.clamp(max=-1e-7)
    return held - torch.log(-torch.expm1(held))  # expm1 keeps the digits of 1 - p near p = 1
