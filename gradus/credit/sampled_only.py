"""Credit for the answers of the policy alone, in groups that also contain given answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.types import Group
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.returned import assigned
from gradus.types.signals import Signal


@dataclass(frozen=True)
class SampledOnly:
    """Gives the answers of the policy the credit of `rule`, which sees no given answers. The given answers get the advantage 0.

    So texts from elsewhere, such as the texts of an imitation term, do not change the comparison with the group or the batch.
    """

    rule: Credit = GroupRelative()

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        own = [g.but(trajectories=tuple(t for t in g.trajectories if t.source == "policy")) for g in groups]
        rows = [iter(row) for row in assigned(self.rule, own, signals)]
        return [
            [next(row) if t.source == "policy" else Credited(np.zeros(t.actions)) for t in g.trajectories] for g, row in zip(groups, rows, strict=True)
        ]
