"""Totals with their counts. The totals and counts of all micro-batches are added. So a metric is the same as after one pass over the whole batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tally:
    """A total and its count; `mean` is total / count. If the count is 0, the total is already an average (a loss), and `mean` returns it."""

    total: Tensor
    count: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> float:
        return float(self.total) / max(self.count, 1)


def tally(values: Tensor) -> Tally:
    """A tally that counts every element of `values` once, without gradient."""
    return Tally(values.detach().to(torch.float64).sum(), values.numel())


def merge(*parts: Mapping[str, Tally]) -> dict[str, Tally]:
    """Adds the tallies that have the same name."""
    out: dict[str, Tally] = {}
    for part in parts:
        for name, value in part.items():
            out[name] = out[name] + value if name in out else value
    return out


def check_same_shape(**tensors: Tensor) -> None:
    """Raises ValueError if the shapes differ. The message lists all shapes."""
    shapes = {name: tuple(t.shape) for name, t in tensors.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"shapes differ: {shapes}; give all tensors the same shape")
