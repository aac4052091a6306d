"""A term that imitates the policy's own right answers. It is added to the policy gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, tally


@dataclass(frozen=True)
class ImitateRight:
    """-coefficient * mean of log pi over all actions of right answers in the mini-batch; 0 if there is no right answer."""

    coefficient: float = 0.1
    source: str = "policy"
    separable: ClassVar[bool] = True  # a sum over actions, because the right answers of the mini-batch and their lengths are known before
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks_right: ClassVar[str] = "none"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, coefficient="[0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        right = [t.right and t.source == self.source for t in batch.trajectories]
        count = sum(t.actions for t, good in zip(batch.trajectories, right, strict=True) if good)
        chosen = torch.tensor(right, dtype=batch.weight.dtype).index_select(0, batch.trajectory)
        losses = -outputs[LogProb()] * batch.weight * chosen
        return self.coefficient * losses.sum() / max(count, 1), {"right_share": tally(chosen)}
