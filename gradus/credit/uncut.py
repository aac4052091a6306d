"""Leaves an answer out of the loss if a limit cut it off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradus.credit.groups import GroupRelative
from gradus.types import Ended, Group
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.returned import assigned
from gradus.types.signals import Signal

CUT = (Ended.LENGTH, Ended.CONTEXT)


@dataclass(frozen=True)
class Uncut:
    """Gives weight 0 to answers that the token limit or the model's context cut off, so no loss term reads them.

    All other answers get the credit of `rule`.

    The rewards of the answers that were cut off still count in the comparison with the group. The denominator of an average also counts these
    answers, unless it counts only weighted actions (`average.counted`).
    Reference: Yu et al., DAPO, arXiv:2503.14476, section 3.4 (overlong filtering).
    """

    rule: Credit = GroupRelative()

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        rows = assigned(self.rule, groups, signals)
        return [
            [replace(c, weights=np.zeros(t.actions)) if t.ended in CUT else c for c, t in zip(row, g.trajectories, strict=True)]
            for row, g in zip(rows, groups, strict=True)
        ]
