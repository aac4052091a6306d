"""An average turns the losses of all actions into one number. The average computes a coefficient for each action from the counts of the whole mini-batch."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from gradus.objectives.returned import check_rows
from gradus.types import UserError
from gradus.types.batch import Batch, Counts, segment_sum
from gradus.types.ranges import check_ranges


class Average(Protocol):
    def coefficients(self, batch: Batch, source: str) -> Tensor:
        """Returns the coefficients [A]. The term's loss is sum(coefficients * losses)."""
        ...


def averaged(average: Average, losses: Tensor, batch: Batch, source: str) -> Tensor:
    """Returns the loss of a term: sum(coefficients * losses) over its losses [A]. Raises UserError unless each action has one coefficient."""
    coefficients = average.coefficients(batch, source)
    check_rows(average, "coefficients", coefficients, batch.weight.shape, "action")
    return (coefficients * losses).sum()


def pulling(rows: Tensor, weight: Tensor) -> Tensor:
    """Returns `rows` [A, ...] with the same values, but with their gradient multiplied by `weight` [A]. A term uses this function if it is not a sum over
    actions.
    """
    if bool((weight == 1).all()):
        return rows
    each = weight.reshape(-1, *([1] * (rows.ndim - 1)))
    return rows.detach() + each * (rows - rows.detach())


def weight_sums(batch: Batch, source: str) -> Tensor:
    """Returns [N], by trajectory id: the sum of the weights of the trajectory's actions in the whole mini-batch.

    A trajectory of another source than `source` gets 0.
    """
    each = [t.weight * (t.actions if t.weights is None else float(t.weights.sum())) if t.source == source else 0.0 for t in batch.trajectories]
    return torch.tensor(each, dtype=torch.float64).to(batch.weight)


Counted: TypeAlias = Literal["all", "weighted"]
"""How an average counts actions in its denominator. "all": every action counts as 1. "weighted": an action counts as its weight, so masked actions do not
count.
"""


@dataclass(frozen=True)
class TokenMean:
    """Equal weight per action: 1 / (actions of the mini-batch). DAPO, arXiv:2503.14476, eq. 8."""

    counted: Counted = "all"

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        if self.counted == "weighted":
            return torch.ones_like(batch.weight) * _inverse(weight_sums(batch, source).sum())
        return torch.full_like(batch.weight, 1.0 / max(batch.counts[source].actions, 1))


@dataclass(frozen=True)
class SequenceMean:
    """Equal weight per trajectory: 1 / (N * actions of the trajectory). GRPO, arXiv:2402.03300, eq. 3."""

    counted: Counted = "all"  # "weighted": N counts the trajectories whose weights are not all 0

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        if self.counted == "weighted":
            sums = weight_sums(batch, source)
            return _inverse(sums).index_select(0, batch.trajectory) * _inverse((sums > 0).sum().to(sums))
        return 1.0 / (batch.in_trajectory * max(batch.counts[source].trajectories, 1))


def _inverse(sums: Tensor) -> Tensor:
    """Returns 1 / sum. If the sum is 0, returns 0, because then no action counts."""
    return torch.where(sums > 0, 1.0 / sums, torch.zeros_like(sums))


@dataclass(frozen=True)
class SequenceSum:
    """Sums over the actions of each trajectory, then averages over trajectories: each action has the coefficient 1 / N, as in REINFORCE."""

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        return torch.full_like(batch.weight, 1.0 / max(batch.counts[source].trajectories, 1))


@dataclass(frozen=True)
class ContextMean:
    """Equal weight per context: 1 / (contexts * actions of the context). If each turn has its own context, every turn counts as one sample."""

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        inside = segment_sum(torch.ones_like(batch.weight), batch.context, len(batch.contexts))
        return 1.0 / (inside.index_select(0, batch.context) * max(batch.counts[source].contexts, 1))


@dataclass(frozen=True)
class GroupMean:
    """Token mean within each group, then the mean over groups: 1 / (groups * actions of the group)."""

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        return 1.0 / (batch.in_group * max(batch.counts[source].groups, 1))


@dataclass(frozen=True)
class ConstantLength:
    """1 / (N * length). `length` is a constant, so the length of a trajectory does not affect its weight. Dr. GRPO, arXiv:2503.20783."""

    length: int = 1024  # number of actions; in the paper, the sampling limit

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        return torch.full_like(batch.weight, 1.0 / (max(batch.counts[source].trajectories, 1) * self.length))


@dataclass(frozen=True)
class ConstantTotal:
    """1 / total for every action. `total` is a constant, so the weight of a token does not depend on the number of answers or on their lengths."""

    total: int = 409600  # number of actions; in the paper of C3PO, arXiv:2506.14731, the token budget of a step

    def __post_init__(self) -> None:
        check_ranges(self, total="[1, inf)")

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        return torch.full_like(batch.weight, 1.0 / self.total)


@dataclass(frozen=True)
class Joint:
    """Applies `average` to the actions and trajectories of all sources together. So the terms of several sources share one denominator.

    Raises UserError if `average` depends on groups or contexts, because a term sees only the groups and contexts of one source.
    """

    average: Average = TokenMean()

    def __post_init__(self) -> None:
        if isinstance(self.average, (GroupMean, ContextMean)):
            name = type(self.average).__name__
            raise UserError(
                f"Joint needs the same denominator for all sources, but the denominator of {name} differs between sources; set TokenMean or SequenceMean"
            )

    def coefficients(self, batch: Batch, source: str) -> Tensor:
        whole = Counts(*(sum(getattr(c, f.name) for c in batch.counts.values()) for f in fields(Counts)))
        same = tuple(t if t.source == source else t.but(source=source) for t in batch.trajectories)
        return self.average.coefficients(replace(batch, counts={source: whole}, trajectories=same), source)
