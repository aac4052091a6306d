"""Credit of verdicts on right and on wrong answers. A factor balances the two classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gradus.credit.groups import GroupRelative
from gradus.types import Group
from gradus.types.parts import Credit, Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.returned import assigned
from gradus.types.signals import Signal

TRUTH = "truth"  # the link of a verdict text: whether the judged answer is right


@dataclass(frozen=True)
class ClassBalanced:
    """Multiplies the advantages of `rule` by s_c = sqrt(n / (2 n_c)), where n_c counts the texts on right (or wrong) answers among the n texts of the batch.

    The factors are averaged over batches: s = decay * s + (1 - decay) * (factor of this batch). If a class is missing in a batch, its factor stays unchanged.
    """

    rule: Credit = GroupRelative()
    decay: float = 0.9

    def __post_init__(self) -> None:
        check_ranges(self, decay="[0, 1)")

    @cached_property
    def needs(self) -> tuple[Signal, ...]:
        return self.rule.needs

    def start(self) -> dict[str, Any]:
        return {"right": None, "wrong": None}

    def assign(self, groups: Sequence[Group], signals: Signals, state: dict[str, Any]) -> tuple[list[list[Credited]], dict[str, Any]]:
        rows = assigned(self.rule, groups, signals)
        right = [bool(t.links.get(TRUTH)) for g in groups for t in g.trajectories]
        found = {name: averaged(state[name], len(right), right.count(name == "right"), self.decay) for name in ("right", "wrong")}
        factor = iter([found["right" if r else "wrong"] or 1.0 for r in right])
        return [[replace(c, advantages=c.advantages * next(factor)) for c in row] for row in rows], found


def averaged(old: float | None, every: int, mine: int, decay: float) -> float | None:
    """Returns the factor of a class after a batch. `every`: the number of texts of the batch; `mine`: the number of those texts that belong to the class."""
    if not mine:
        return old
    new = math.sqrt(every / (2 * mine))
    return new if old is None else decay * old + (1 - decay) * new
