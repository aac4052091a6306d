"""Gives credit to some answers that a verifier calls wrong: partial credit to sets of nodes or edges, and full credit to numbers within a tolerance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.rewards.verified import Verified
from gradus.types import Frozen, Group, Problem, UserError
from gradus.types.parts import Judgement, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal

_NUMBER = re.compile(r"[-+]?[0-9]{1,100}(\.[0-9]{1,100})?")


def jaccard(said: Sequence[str], due: Sequence[str]) -> float:
    """Returns |A and B| / |A or B| of the sets A (`said`) and B (`due`); 1 for two empty sets.

    If an element occurs several times in `said`, each repetition counts as one more element that is not in B.

    >>> jaccard(["1", "2", "3"], ["2", "3", "4"])
    0.5
    """
    common = len(set(said) & set(due))
    every = len(said) + len(set(due)) - common
    return common / every if every else 1.0


def elements(text: str, letters: int) -> list[str] | None:
    """Returns the elements of a set that is written as text; None if the text is not such a set.

    `letters`: 1 reads nodes ("ABD", "A, B, D"); 2 reads edges ("AB CD", "B-A"), whose nodes are put in alphabetical order.
    """
    if letters == 1:
        bare = re.sub(r"[ ,>-]", "", text)
        return list(bare) if re.fullmatch("[A-Z]{1,200}", bare) else None
    pieces = text.replace("-", "").replace(",", " ").split()
    return ["".join(sorted(piece)) for piece in pieces] if pieces and all(re.fullmatch("[A-Z]{2}", piece) for piece in pieces) else None


@dataclass(frozen=True)
class ByAnswer(Combines):
    """Gives the verdict of the task, with two exceptions: a set gets partial credit, and a number within `tolerance` of the answer gets 1.

    A problem asks for a set if its `category` is a key of `sets`. Components: verified, the task's verdict; by_answer, the reward.

    Reference: Guo et al., G1, arXiv:2505.18499 (rewards by type of answer).
    """

    sets: Frozen[int] = Frozen(reach=1, bridges=2)  # category -> letters of an element of the answer
    tolerance: float | None = 0.01  # largest distance from a number; None: only the verdict counts
    verified: Verified = Verified()
    name: ClassVar[str] = "by_answer"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, tolerance="[0, inf)")
        if wrong := next((f"{name}={count}" for name, count in self.sets.items() if count not in (1, 2)), None):
            raise UserError(f"ByAnswer.sets has {wrong}; an element of a set has 1 letter (a node) or 2 letters (an edge)")

    def check(self, task: Task) -> None:
        """Raises UserError if the task has no verifier."""
        self.verified.check(task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        judged = await self.verified.score(groups, signals, world)
        return [
            [self._with_credit(j, t.problem, t.completion) for j, t in zip(row, g.trajectories, strict=True)]
            for row, g in zip(judged, groups, strict=True)
        ]

    def _with_credit(self, judgement: Judgement, problem: Problem, completion: str) -> Judgement:
        if not isinstance(judgement.reward, int | float) or judgement.reward >= 1:
            return judgement
        reward = max(float(judgement.reward), self.credit(problem, completion))
        return replace(judgement, reward=reward, components=Frozen({**judgement.components, self.name: reward}))

    def credit(self, problem: Problem, completion: str) -> float:
        """Returns the credit in [0, 1] of an answer that the verifier calls wrong. The answer is the text after the last "="."""
        _, mark, said = completion[-1024:].rpartition("=")
        said, due = said.strip(), str(problem.answer)
        if not mark:
            return 0.0
        if (letters := self.sets.get(str(problem.meta.get("category")))) is not None:
            found, right = elements(said, letters), elements(due, letters)
            return 0.0 if found is None or right is None else jaccard(found, right)
        numbers = self.tolerance is not None and _NUMBER.fullmatch(said) and _NUMBER.fullmatch(due)
        return float(bool(numbers) and abs(float(said) - float(due)) <= float(self.tolerance or 0.0))
