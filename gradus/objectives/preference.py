"""The term that compares the two trajectories of a group: a better and a worse answer to one problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.types.batch import Batch, segment_sum
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, LogProbs, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


def preference_losses(chosen: Tensor, rejected: Tensor, *, beta: float) -> Tensor:
    """DPO's loss a pair: -log sigmoid(beta (chosen - rejected)).

    Args: chosen, rejected [P]: sum over the answer's actions of log pi - log pi_ref, nats, with gradient.  Returns: [P], not averaged.
    Reference: Rafailov et al., Direct Preference Optimization, arXiv:2305.18290, eq. 7.
    """
    check_same_shape(chosen=chosen, rejected=rejected)
    return -torch.nn.functional.logsigmoid(beta * (chosen - rejected))


def pairs_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """Ids [P] of the better and of the worse trajectory of every group. Raises ValueError for a group that is not two with different rewards."""
    ids, first = np.unique(batch.trajectory.numpy(), return_index=True)
    owners = batch.group.numpy()[first]
    better, worse = [], []
    for owner in np.unique(owners):
        pair = sorted(ids[owners == owner], key=lambda i: batch.trajectories[i].value)
        if len(pair) != 2 or batch.trajectories[pair[0]].value == batch.trajectories[pair[1]].value:
            raise ValueError(
                f"a preference compares two trajectories with different rewards, but a group has {len(pair)}; select BestAndWorst"
            )
        worse.append(int(pair[0]))
        better.append(int(pair[1]))
    return torch.tensor(better), torch.tensor(worse)


@dataclass(frozen=True)
class Preference:
    """coefficient * mean over pairs of -log sigmoid(beta (h_better - h_worse)), h the log-ratio to a frozen player summed over a trajectory."""

    beta: float = 0.1
    player: str = "reference"
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # couples all actions of two trajectories
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.player),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        log_ratio = outputs[LogProb()] - batch.signals[LogProbs(player=self.player)]
        sums = segment_sum(log_ratio, batch.trajectory, len(batch.trajectories))
        better, worse = (sums.index_select(0, ids) for ids in pairs_of(batch))
        losses = preference_losses(better, worse, beta=self.beta)
        margin = self.beta * (better - worse)
        metrics = {"margin": tally(margin), "preferred": tally(margin.detach() > 0)}
        return self.coefficient * losses.sum() / batch.counts[self.source].groups, metrics
