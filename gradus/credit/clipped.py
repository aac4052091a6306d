"""Clips the advantages of another credit rule to bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.types import Group, UserError
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.returned import assigned
from gradus.types.signals import Signal


def bounded(advantages: np.ndarray, *, limit: float, scale: float) -> np.ndarray:
    """Returns scale / limit * clip(A, -limit, limit). The values are in [-scale, scale]."""
    return np.clip(advantages, -limit, limit) * (scale / limit)


@dataclass(frozen=True)
class Clipped:
    """Clips the advantages of `rule` to [-limit, limit] and scales them by scale / limit. The returns do not change."""

    rule: Credit = GroupRelative()
    limit: float = 5.0  # bound of an advantage, above 0
    scale: float = 1.0  # bound of a scaled advantage, above 0

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("scale", self.scale)):
            if not value > 0:
                raise UserError(f"bounded advantages: `{name}` is {value}; it must be above 0")

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [[replace(c, advantages=bounded(c.advantages, limit=self.limit, scale=self.scale)) for c in row] for row in rows]
