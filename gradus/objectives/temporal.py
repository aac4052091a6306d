"""A term that fits several heads to the targets of a credit rule, with squared or expectile losses.

Such heads are, for example, two values of the state and two values of the action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gradus.types import Frozen, UserError
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.readers import After
from gradus.types.signals import Signal, Value, Viewed, Want
from gradus.types.tally import Tally, check_same_shape, tally


def expectile_losses(values: Tensor, targets: Tensor, *, tau: float) -> Tensor:
    """|tau - [target < value]| (target - value)^2 for each row. With tau 1/2 the loss is half of the square.

    Args: `values` with gradient; `targets`, same shape.

    Reference: Kostrikov et al., Offline Reinforcement Learning with Implicit Q-Learning, arXiv:2110.06169, eq. 3.
    """
    check_same_shape(values=values, targets=targets)
    gap = targets - values
    weight = torch.where(gap.detach() < 0, gap.new_tensor(1 - tau), gap.new_tensor(tau))  # with two plain numbers, the result would have float32
    return weight * gap.square()


@dataclass(frozen=True)
class Targets:
    """Fits every head to its column of the returns. The loss of a head is the mean over its targets of 2 |tau - [y < V]| (y - V)^2.

    The losses of all heads are added.

    Column i of the returns [A, n] belongs to head i; NaN means that the row has no target. The heads named in `after` are read after the action, so they give
    values of state and action. All other heads are read before the action. With tau 1/2 the term is the sum of the heads' mean squared errors.
    """

    heads: tuple[str, ...] = ("q1", "q2", "v1", "v2")
    after: tuple[str, ...] = ("q1", "q2")
    tau: float = 0.5
    coefficient: float = 1.0
    source: str = "policy"
    separable: ClassVar[bool] = False  # a mean over the rows that have a target
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"targets": "a credit rule that gives a column of returns per head"})

    def __post_init__(self) -> None:
        check_ranges(self, tau="(0, 1)")
        if unknown := [name for name in self.after if name not in self.heads]:
            raise UserError(f"Targets: `after` names {unknown[0]}, which is not a head; name one of the heads {', '.join(self.heads)}")

    @property
    def wants(self) -> tuple[Want, ...]:
        return tuple(value_of(name, after=name in self.after) for name in self.heads)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        if batch.returns.ndim != 2 or batch.returns.shape[1] != len(self.heads):
            raise UserError(f"Targets has {len(self.heads)} heads, but the returns have the shape {list(batch.returns.shape)}; give one column per head")
        total, metrics = batch.weight.new_zeros(()), dict[str, Tally]()
        for column, (name, want) in enumerate(zip(self.heads, self.wants, strict=True)):
            rows = batch.returns[:, column].isfinite().nonzero()[:, 0]
            values, targets = outputs[want].index_select(0, rows), batch.returns[:, column].index_select(0, rows)
            losses = 2 * expectile_losses(values, targets, tau=self.tau) * batch.weight.index_select(0, rows)
            total = total + (losses.sum() / max(len(rows), 1) if len(rows) else outputs[want].sum() * 0)
            metrics[f"error/{name}"] = tally((values.detach() - targets).square())
        return self.coefficient * total, metrics


def value_of(head: str, *, after: bool) -> Want:
    """Returns the `Want` that reads a head's value before every action, or after every action if `after`."""
    return Viewed(Value(head), After()) if after else Value(head)
