"""Multiplies the advantage of each action by a factor. The factor is computed from signals such as attention, entropy or spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.types import Group, UserError
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.returned import assigned, named
from gradus.types.signals import Signal


class Factor(Protocol):
    """Computes a factor for every action. `needs` names the signals that the factor reads.

    If a factor has the attribute `only_positive` with the value True, advantages below 0 do not change.
    """

    @property
    def needs(self) -> tuple[Signal, ...]: ...

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        """Returns the factors [A] of each trajectory of each group, without gradient."""
        ...


@dataclass(frozen=True)
class Same:
    """A factor that is the same number for all actions."""

    by: float = 1.0
    needs: tuple[Signal, ...] = ()

    def factors(self, groups: Sequence[Group], signals: Signals) -> list[list[np.ndarray]]:
        return [[np.full(t.actions, self.by) for t in g.trajectories] for g in groups]


@dataclass(frozen=True)
class Scaled:
    """Multiplies the advantages of `rule` by the numbers that `factor` computes. The returns and weights do not change."""

    rule: Credit = GroupRelative()
    factor: Factor = Same()

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (*self.rule.needs, *self.factor.needs)

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        factors = self.factor.factors(groups, signals)
        return [
            [self._scaled(c, f) for c, f in zip(row, each, strict=True)] for row, each in zip(rows, factors, strict=True)
        ]

    def _scaled(self, credited: Credited, factors: np.ndarray) -> Credited:
        if factors.shape != credited.advantages.shape:
            due = f"an array [{len(credited.advantages)}], one factor per action"
            raise UserError(f"{named(self.factor, 'factors')} returned an array of shape {list(factors.shape)}; it must return {due}")
        kept = (credited.advantages < 0) if getattr(self.factor, "only_positive", False) else np.zeros(factors.shape, bool)
        return replace(credited, advantages=np.where(kept, credited.advantages, factors * credited.advantages))
