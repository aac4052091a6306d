"""A contrastive loss of hidden states: texts of one group attract each other, and repel all other texts of the mini-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.readers import Hidden
from gradus.types.signals import Signal, Want
from gradus.types.tally import Tally, tally


def contrastive_losses(features: Tensor, owners: Tensor, *, tau: float) -> tuple[Tensor, Tensor]:
    """Returns the loss [n] of each text with a partner, and whether its nearest text is a partner. Partners are texts with the same owner.

    Args: `features` [N, d], with gradient; `owners` [N].  Reference: Khosla et al., Supervised Contrastive Learning, arXiv:2004.11362, eq. 2.
    """
    rows = torch.nn.functional.normalize(features, dim=-1)
    own = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    partner = (owners[:, None] == owners[None, :]) & ~own
    cosines = (rows @ rows.T / tau).masked_fill(own, -torch.inf)
    logs = (cosines - cosines.logsumexp(-1, keepdim=True)).masked_fill(~partner, 0.0)
    has = partner.any(-1)
    nearest = partner.gather(1, cosines.argmax(-1, keepdim=True))[:, 0]
    return -(logs.sum(-1) / partner.sum(-1).clamp(min=1))[has], nearest[has]


@dataclass(frozen=True)
class Contrastive:
    """The contrastive loss of the mean hidden states of texts. The texts of a group are partners, and the other texts of the mini-batch are negatives."""

    tau: float = 0.1
    coefficient: float = 1.0
    source: str = "expert"
    separable: ClassVar[bool] = False
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (Hidden(pool="mean"),)
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, tau="(0, inf)")

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        rows = outputs[self.wants[0]]
        ids, place = torch.unique(batch.trajectory, return_inverse=True)
        sums = rows.new_zeros(len(ids), rows.shape[1]).index_add(0, place, rows)
        owners = batch.group.new_zeros(len(ids)).index_copy(0, place, batch.group)
        losses, nearest = contrastive_losses(sums, owners, tau=self.tau)
        mean = losses.mean() if len(losses) else sums.sum() * 0.0
        return self.coefficient * mean, {"matched": tally(nearest)}
