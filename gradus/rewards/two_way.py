"""Rewards an answer if it contains a stored answer, or if a stored answer contains it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.rewards.overlap import contains
from gradus.types import NOT_APPLICABLE, Frozen, Group, Outcome, Problem
from gradus.types.answers import final_answer
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal

_MARK = re.compile(r"####|\\boxed\{|\banswer\s*:|=", re.IGNORECASE)


def words(text: str) -> list[str]:
    """Returns the words of a text in lower case, without punctuation.

    >>> words("Paris, France.")
    ['paris', 'france']
    """
    return re.findall(r"\w+", text.casefold())


def two_way(completion: str, answer: str) -> float:
    """Returns 1.0 if the final answer of the completion contains the answer or is contained in it, else 0.0. Without a final answer, the result is 0.0.

    The final answer is the last box, or the text after the last "answer:", "####" or "=".
    """
    if not _MARK.search(completion):
        return 0.0
    said, due = words(final_answer(completion).rpartition("=")[2]), words(answer)
    return float(contains(said, due) or contains(due, said))


def judged(problem: Problem, completion: str) -> Outcome:
    """Returns the largest `two_way` of the problem's answers; the reward does not apply to a problem without an answer."""
    answers = problem.answer if isinstance(problem.answer, list | tuple) else [problem.answer]
    known = [str(answer) for answer in answers if answer is not None and words(str(answer))]
    return max(two_way(completion, answer) for answer in known) if known else NOT_APPLICABLE


@dataclass(frozen=True)
class TwoWay(Combines):
    """1.0 if the final answer contains a stored answer as whole words, or a stored answer contains the final answer; else 0.0. The reward does not apply to a
    problem without an answer.

    Reference: Wang et al., LoongRL, arXiv:2510.19363 (two-way substring match).
    """

    name: ClassVar[str] = "two_way"
    needs: ClassVar[tuple[Signal, ...]] = ()

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [
            [Judgement(value, Frozen({self.name: value})) for value in (judged(t.problem, t.completion) for t in g.trajectories)]
            for g in groups
        ]
