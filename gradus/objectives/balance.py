"""Trajectory balance: the log-probability of a trajectory should equal a target plus a constant of the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.aggregation import pulling
from gradus.objectives.scores import trajectory_means, trajectory_sums
from gradus.types.batch import Batch, segment_sum
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, tally


@dataclass(frozen=True)
class TrajectoryBalance:
    """coefficient * mean over groups of the variance, within the group, of the score s = log pi(trajectory) - advantage.

    A group with one trajectory has the loss 0.

    The mean of the scores of a group estimates -log Z, so no network learns Z. Reference: VarGrad, Zhang et al., arXiv:2302.05446.
    """

    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # the mean of the scores couples the trajectories of a group
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, coefficient="[0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        ids, first = np.unique(batch.trajectory.numpy(), return_index=True)
        mine = torch.from_numpy(ids)
        scores = trajectory_sums(pulling(outputs[LogProb()], batch.weight), batch)[mine] - trajectory_means(batch.advantages, batch)[mine]
        owner = torch.unique(batch.group[torch.from_numpy(first)], return_inverse=True)[1]
        size = segment_sum(torch.ones_like(scores), owner, int(owner.max()) + 1)
        errors = scores - (segment_sum(scores, owner, len(size)) / size)[owner]
        loss = (errors.square() / size[owner]).sum() / max(batch.counts[self.source].groups, 1)
        return self.coefficient * loss, {"balance_error": tally(errors.abs())}
