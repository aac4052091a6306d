"""A reward for answers in the language of the problem."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.types import Frozen, Group
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal

_FORMAL = re.compile(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\\\(.*?\\\)|\\\[.*?\\\]|<[^<>]*>", re.DOTALL)


def language(text: str, alphabets: Mapping[str, str]) -> str:
    """Returns the alphabet to which most letters of the text belong, without code, formulas and tags; "" if there is no letter.

    If `alphabets` is empty, the scripts of Unicode are used.
    """
    letters = [c for c in _FORMAL.sub(" ", text) if c.isalpha()]
    if alphabets:
        found = Counter(name for c in letters for name, members in alphabets.items() if c in members)
    else:
        found = Counter(unicodedata.name(c, "?").split()[0] for c in letters)
    return max(found, key=lambda name: (found[name], name), default="")


@dataclass(frozen=True)
class SameLanguage(Combines):
    """1 if the problem, the thoughts and the answer are in the same language, else 0. A text without letters has no language and fits every other text."""

    alphabets: Frozen[str] = Frozen()  # name of a language -> its letters; empty: Unicode's scripts, such as LATIN or CYRILLIC
    end: str = "</think>"  # the text that ends the thoughts
    name: ClassVar[str] = "language"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def value(self, question: str, completion: str) -> float:
        """Returns the value of a completion."""
        thoughts, _, answer = completion.rpartition(self.end)
        return float(len({language(text, self.alphabets) for text in (question, thoughts, answer)} - {""}) <= 1)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        values = [[self.value(t.problem.question, t.completion) for t in g.trajectories] for g in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in values]
