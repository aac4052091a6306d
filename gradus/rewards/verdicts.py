"""Forms of verdicts: points for one answer, the better of two answers, scores of several answers, or the first wrong step.

A form has a template for the prompt, and reads the verdict from the text that the judge writes. A verdict is a tuple of numbers between 0 and 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from gradus.rewards.judge import filled
from gradus.types import Failed, Problem, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges

Verdict = tuple[float, ...]
Kind = Literal["point", "pair", "list", "steps"]


@dataclass(frozen=True)
class Case:
    """The answers that a judge reads together: one for points and steps, two for a pair, several for a list. `steps`: the steps, if there is only one answer.

    `completion`: the whole completion, if the judge reads only a part of it. A scripted judge needs the whole completion to find the truth.
    """

    id: str
    problem: Problem
    answers: tuple[str, ...]
    steps: tuple[str, ...] = ()
    completion: str | None = None


class Form(Protocol):
    """`kind`: how many numbers a verdict has, and their meaning. "point": how right the answer is. "pair": 1 if the first answer is better, 0 if the second
    is better, 0.5 for a tie. "list": the score of each answer. "steps": 1 for every step before the first wrong step, 0 for the others.
    """

    kind: ClassVar[Kind]

    def prompt(self, case: Case) -> str: ...

    def read(self, text: str, case: Case) -> Verdict | None:
        """Returns the verdict; None if the text has no verdict."""
        ...


class Arbiter(Protocol):
    """A judge: a player, a server, or a script."""

    async def decide(self, form: Form, cases: Sequence[Case], world: World) -> list[Verdict | Failed | None]:
        """Returns for each case its verdict, None if the judge's text has no verdict, or a failure if the judge gave no text."""
        ...


def shown(template: str, case: Case, **values: str) -> str:
    """Fills the template with the question, the reference answer and the values."""
    reference = case.problem.reference
    return filled(template, problem=case.problem.question, reference="(none)" if reference is None else reference, **values)


def check_template(part: object, *names: str) -> None:
    """Raises UserError if the part's template lacks a field, because the judge reads only the template."""
    for name in names:
        if f"{{{name}}}" not in part.template:  # type: ignore[attr-defined]
            raise UserError(f"{type(part).__name__}.template does not contain {{{name}}}; add it, because the judge reads only the template")


@dataclass(frozen=True)
class YesNo:
    """Points: 1 if the last of the two words in the judge's text is `yes`, 0 if it is `no`."""

    template: str = (
        "Question:\n{problem}\n\nReference answer: {reference}\n\nAnswer to judge:\n{answer}\n\nIs the answer right? End with one word: yes or no.\n"
    )
    yes: str = "yes"
    no: str = "no"
    kind: ClassVar[Kind] = "point"

    def __post_init__(self) -> None:
        check_template(self, "answer")

    def prompt(self, case: Case) -> str:
        return shown(self.template, case, answer=case.answers[0])

    def read(self, text: str, case: Case) -> Verdict | None:
        """
        >>> YesNo().read("No doubt: yes.", None), YesNo().read("perhaps", None)
        ((1.0,), None)
        """
        found = re.findall(rf"\b({re.escape(self.yes)}|{re.escape(self.no)})\b", text, re.IGNORECASE)
        return (float(found[-1].lower() == self.yes.lower()),) if found else None


@dataclass(frozen=True)
class Grade:
    """Points: the last number in the judge's text that lies between `low` and `high`, scaled to the range from 0 to 1."""

    template: str = "Question:\n{problem}\n\nAnswer to judge:\n{answer}\n\nGrade the answer. End with a whole number from 1 (bad) to 10 (good).\n"
    low: float = 1
    high: float = 10
    kind: ClassVar[Kind] = "point"

    def __post_init__(self) -> None:
        check_ranges(self, low="(-inf, inf)", high=f"({self.low}, inf)")
        check_template(self, "answer")

    def prompt(self, case: Case) -> str:
        return shown(self.template, case, answer=case.answers[0])

    def read(self, text: str, case: Case) -> Verdict | None:
        """
        >>> Grade(low=0).read("7 of 9 points, so 9/10", None), Grade().read("11", None)
        ((1.0,), None)
        """
        found = [n for n in map(float, _NUMBER.findall(text)) if self.low <= n <= self.high]
        return ((found[-1] - self.low) / (self.high - self.low),) if found else None


@dataclass(frozen=True)
class Better:
    """A pair: the last of the words A, B and tie in the judge's text."""

    template: str = (
        "Question:\n{problem}\n\nAnswer A:\n{first}\n\nAnswer B:\n{second}\n\nWhich answer is better? End with one word: A, B or tie.\n"
    )
    kind: ClassVar[Kind] = "pair"

    def __post_init__(self) -> None:
        check_template(self, "first", "second")

    def prompt(self, case: Case) -> str:
        return shown(self.template, case, first=case.answers[0], second=case.answers[1])

    def read(self, text: str, case: Case) -> Verdict | None:
        """
        >>> Better().read("A is long, but B", None), Better().read("a tie", None), Better().read("none", None)
        ((0.0,), (0.5,), None)
        """
        found = re.findall(r"\b(A|B|[Tt]ie)\b", text)
        return ({"A": 1.0, "B": 0.0}.get(found[-1], 0.5),) if found else None


@dataclass(frozen=True)
class ScoreLines:
    """A list: a line "NUMBER: SCORE" for each answer, with scores from 0 to `high`, scaled to the range from 0 to 1. Every answer needs a line."""

    template: str = "Question:\n{problem}\n\n{answers}\n\nGive each answer a score from 0 to 10, on lines such as 1: 7\n"
    high: float = 10
    kind: ClassVar[Kind] = "list"

    def __post_init__(self) -> None:
        check_ranges(self, high="(0, inf)")
        check_template(self, "answers")

    def prompt(self, case: Case) -> str:
        return shown(self.template, case, answers="\n\n".join(f"Answer {i}:\n{text}" for i, text in enumerate(case.answers, 1)))

    def read(self, text: str, case: Case) -> Verdict | None:
        """
        >>> ScoreLines().read("1: 10\\n2: 2.5", Case("", None, ("x", "y"))), ScoreLines().read("1: 10", Case("", None, ("x", "y")))
        ((1.0, 0.25), None)
        """
        lines = re.findall(r"^\s*(?:Answer\s+)?(\d{1,6})\s*[.:)]\s*(\d+(?:\.\d+)?)", text, re.MULTILINE)
        found = {int(number): float(score) for number, score in lines if 0 <= float(score) <= self.high}
        numbers = range(1, len(case.answers) + 1)
        return tuple(found[i] / self.high for i in numbers) if all(i in found for i in numbers) else None


@dataclass(frozen=True)
class FirstError:
    """Steps: the last whole number in the judge's text is the number of the first wrong step, counted from 0; -1 means that every step is right."""

    template: str = (
        "Question:\n{problem}\n\nReference answer: {reference}\n\nSteps:\n{steps}\n\nWhich step is the first wrong one? End with its number, or with -1 if all "
        "steps are right.\n"
    )
    kind: ClassVar[Kind] = "steps"

    def __post_init__(self) -> None:
        check_template(self, "steps")

    def prompt(self, case: Case) -> str:
        return shown(self.template, case, steps="\n".join(f"{i}. {step.strip()}" for i, step in enumerate(case.steps)))

    def read(self, text: str, case: Case) -> Verdict | None:
        """
        >>> FirstError().read("1", Case("", None, ("x",), ("a", "b", "c"))), FirstError().read("3", Case("", None, ("x",), ("a",)))
        ((1.0, 0.0, 0.0), None)
        """
        found = [int(n) for n in re.findall(r"(?<!\d)-?\d{1,6}(?!\d)", text)]
        return before_error(found[-1], len(case.steps)) if found and -1 <= found[-1] < len(case.steps) else None


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def before_error(first: int, count: int) -> Verdict:
    """Returns the verdict on `count` steps if the first wrong step has the number `first` (-1: no step is wrong)."""
    return tuple(float(first < 0 or i < first) for i in range(count))


def won(one: float, other: float) -> float:
    """Returns 1 if the first number is larger, 0.5 if both are equal, else 0."""
    return 0.5 + 0.5 * ((one > other) - (one < other))


def mean_verdict(verdicts: Sequence[Verdict | None]) -> Verdict | None:
    """Returns the means of the numbers of several verdicts on one case. Texts without a verdict do not count.

    >>> mean_verdict([(1.0,), None, (0.0,)]), mean_verdict([None])
    ((0.5,), None)
    """
    known = [v for v in verdicts if v is not None]
    return tuple(sum(numbers) / len(known) for numbers in zip(*known, strict=True)) if known else None


def soft_verdict(yes: float, no: float) -> float:
    """Returns the certainty that an answer is right, from the probabilities of the two words: p(yes) if yes is the likelier word, else 1 - p(no).

    Reference: Su et al., arXiv:2503.23829, section 3.2.

    >>> soft_verdict(0.9, 0.05), round(soft_verdict(0.2, 0.7), 6)
    (0.9, 0.3)
    """
    return yes if yes >= no else 1 - no
