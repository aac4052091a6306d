"""Texts at the end of the prompt of a second attempt: verdict, right answer, unmet criteria, and the words of a critic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from gradus.types import Request, Sampling, Trajectory, UserError
from gradus.types.parts import World
from gradus.types.prompts import filled
from gradus.types.ranges import check_ranges

Attempt = tuple[Request, Trajectory]
"""A request and a judged answer to it."""


class Feedback(Protocol):
    async def texts(self, attempts: Sequence[Attempt], world: World) -> list[str | None]:
        """Returns one text per first attempt. This text is added to the prompt of the second attempt. If the text is None, there is no second attempt."""
        ...


@dataclass(frozen=True)
class Told:
    """Fills a form with {attempt} (the answer), {verdict} (right or wrong), {answer} (the problem's reference answer) and {unmet}.

    {unmet} lists the names of all components and other numbers of the reward that are 0. For a rubric, these are the unmet criteria. Raises UserError if the
    form contains {answer} and a problem has no answer.
    """

    form: str = "attempt: {attempt}\nThis is {verdict}. The answer is {answer}.\nSolve the problem again."
    right: str = "right"
    wrong: str = "wrong"

    async def texts(self, attempts: Sequence[Attempt], world: World) -> list[str | None]:
        return [told(self.form, t, self.right if t.right else self.wrong) for _, t in attempts]


def told(form: str, attempt: Trajectory, verdict: str, **more: str) -> str:
    """Returns the form with the values of a judged attempt. `more`: further fields of the form."""
    problem = attempt.problem
    if "{answer}" in form and problem.reference is None:
        raise UserError(
            f"problem {problem.id} has no answer that the prompt can show; add the column `answer` to the row of the problem, "
            "or leave {answer} out of the form"
        )
    return filled(form, attempt=attempt.completion, verdict=verdict, answer=problem.reference or "", unmet="; ".join(unmet(attempt)), **more)


def unmet(attempt: Trajectory) -> list[str]:
    """Returns the names of the components and of the stored numbers of an answer that are 0, in order."""
    named = {**attempt.components, **attempt.extra}
    return [name for name, value in named.items() if isinstance(value, int | float) and not isinstance(value, bool) and value == 0]


class Critic(Protocol):
    async def critiques(self, attempts: Sequence[Attempt], world: World) -> list[str]:
        """Returns one critique per attempt."""
        ...


@dataclass(frozen=True)
class WrittenCritique:
    """A critic: the player reads a form with {problem}, {attempt}, {verdict} and {answer}, and writes the critique. No update uses the words of the
    critic."""

    player: str = "critic"
    form: str = "Question: {problem}\nStudent: {attempt}\nRight answer: {answer}\nName the first error of the student."
    max_tokens: int = 256
    temperature: float = 0.0
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, max_tokens="[1, inf)", temperature="[0, inf)")
        if "{attempt}" not in self.form:
            raise UserError("WrittenCritique.form does not contain {attempt}; add it, because the critic reads only the form")

    async def critiques(self, attempts: Sequence[Attempt], world: World) -> list[str]:
        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        asked = [
            replace(r, count=1, player=self.player, prompt=self._prompt(t), tags=(*r.tags, "critique", t.id), sampling=sampling, trained=False)
            for r, t in attempts
        ]
        return [world.text(c.tokens[c.chosen], self.player) for (c,) in await world.sample(asked)]

    def _prompt(self, attempt: Trajectory) -> str:
        return told(self.form, attempt, "right" if attempt.right else "wrong", problem=attempt.problem.question)


@dataclass(frozen=True)
class FirstWrongStep:
    """A critic by script: compares the attempt step by step with the problem's worked solution, and names the first step that differs.

    There is no such step if the attempt is right, if it is the beginning of the solution, or if it continues the solution.
    """

    separator: str = " "  # the text between two steps
    form: str = "step {number} is wrong: {step}"
    fine: str = "no step is wrong"
    columns: ClassVar[frozenset[str]] = frozenset({"solution"})

    async def critiques(self, attempts: Sequence[Attempt], world: World) -> list[str]:
        return [self.critique(t) for _, t in attempts]

    def critique(self, attempt: Trajectory) -> str:
        """Returns the critique of one attempt. Raises UserError if its problem has no solution."""
        solution = attempt.problem.meta.get("solution")
        if solution is None:
            raise UserError(f'problem {attempt.problem.id} has no "solution"; add this column to the row of the problem, or take another critic')
        said, due = (str(text).strip().split(self.separator) for text in (attempt.completion, solution))
        at = first_difference(said, due)
        return self.fine if attempt.right or at is None else filled(self.form, number=str(at + 1), step=said[at])


def first_difference(said: Sequence[str], due: Sequence[str]) -> int | None:
    """Returns the index of the first step that differs; None if one list is the beginning of the other.

    >>> first_difference(["7+5=12", "4+8=11"], ["7+5=12", "4+8+1=13", "6"])
    1
    """
    return next((i for i, (a, b) in enumerate(zip(said, due, strict=False)) if a != b), None)


@dataclass(frozen=True)
class Criticised:
    """Fills a form with {critique} (the words of `critic`) and with the fields of `Told`."""

    critic: Critic = WrittenCritique()
    form: str = "attempt: {attempt}\n{critique}\nSolve the problem again."

    def __post_init__(self) -> None:
        if "{critique}" not in self.form:
            raise UserError("Criticised.form does not contain {critique}; add it, or use Told, which needs no critic")

    async def texts(self, attempts: Sequence[Attempt], world: World) -> list[str | None]:
        words = await self.critic.critiques(attempts, world) if attempts else []
        return [told(self.form, t, "right" if t.right else "wrong", critique=said) for (_, t), said in zip(attempts, words, strict=True)]
