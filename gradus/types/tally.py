"""Sums with their counts: metrics that add up over micro-batches to what one pass over the whole would have given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tally:
    """A total and how many were counted; `mean` is their quotient. Count 0: the total is already an average (a loss), and is shown as it is."""

    total: Tensor
    count: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.total + other.total, self.count + other.count)

    @property
    def mean(self) -> float:
        return float(self.total) / max(self.count, 1)


def tally(values: Tensor) -> Tally:
    """Every element of `values` counted once; no gradient is kept."""
    return Tally(values.detach().to(torch.float64).sum(), values.numel())


def merge(*parts: Mapping[str, Tally]) -> dict[str, Tally]:
    """Adds up what has the same name."""
    out: dict[str, Tally] = {}
    for part in parts:
        for name, value in part.items():
            out[name] = out[name] + value if name in out else value
    return out


def check_same_shape(**tensors: Tensor) -> None:
    """Raises ValueError naming every shape if they differ."""
    shapes = {name: tuple(t.shape) for name, t in tensors.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"shapes differ: {shapes}")
