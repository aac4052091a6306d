"""The share of known facts that an explanation states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.rewards.overlap import part
from gradus.types import NOT_APPLICABLE, Frozen, Group, Outcome, Trajectory
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal


def explanation(completion: str, tag: str | None = None) -> str:
    """Without `tag`, returns the text before the last "=" (the whole completion if it has no "="). With `tag`, returns the text in the last tags of this name
    ("" if there are none).

    >>> explanation("bob has one cat=B"), explanation("<why>bob has one cat</why> B", "why")
    ('bob has one cat', 'bob has one cat')
    """
    if tag is not None:
        return part(completion, tag) or ""
    before, mark, _ = completion.rpartition("=")
    return (before if mark else completion).strip()


def stated(text: str, facts: Mapping[str, str], pools: Mapping[str, Sequence[str]]) -> float:
    """Returns the share of the facts that a text states. A fact is stated if its value is the only value of its kind in the text.

    >>> stated("in kast the baker bob", {"job": "baker", "town": "veld"}, {"job": ("baker", "nurse"), "town": ("kast", "veld")})
    0.5
    """
    found = set(re.findall(r"\w+", text))
    return sum({value} == found & set(pools[kind]) for kind, value in facts.items()) / len(facts)


@dataclass(frozen=True)
class StatedFacts(Combines):
    """The share of the problem's `facts` that the explanation states (see `stated`); `pools` has all values of each kind. The reward applies only if
    the problem has both columns."""

    name: ClassVar[str] = "stated"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[self.value(t) for t in g.trajectories] for g in groups]
        return [[Judgement(v, Frozen({self.name: v})) for v in row] for row in found]

    def value(self, t: Trajectory) -> Outcome:
        """Returns the value of an answer."""
        meta = t.problem.meta
        return stated(explanation(t.completion), meta["facts"], meta["pools"]) if {"facts", "pools"} <= set(meta) else NOT_APPLICABLE
