"""Statements about whole numbers that are proved or disproved. Each theorem has four variants; two of them are true."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.answers import boxed
from gradus.types.parts import Task

VERDICTS = ("proved", "disproved")
VARIANTS = "variants"
"""The column with all variants of the problem's theorem: pairs of a statement and its verdict."""
_TEXT = re.compile(r"\\(?:text|mathrm|textbf)\s*\{([^{}]*)\}")


def theorems(level: int = 1) -> Task:
    """A theorem bounds n + a (level 1), a n + b (level 2) or a n - b (level 3) for all n of a range. The variants shift the bound and negate the statement.

    A completion is right if the content of its last \\boxed{...} is the verdict, proved or disproved. Case, punctuation and \\text{} do not matter.
    """
    return generated_task(
        "theorems",
        _theorem,
        verify,
        level=level,
        levels=(1, 3),
        max_tokens=48 + 8 * level,
        chance=1 / 2,
        about='prove or disprove: "all n in 2..9: n+3<13" -> "9+3=12 12<13 yes \\boxed{proved}"; level: the form of the bounded number',
        provides=(VARIANTS,),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the last box contains the right verdict, else 0.0. A completion without a box gets 0.0."""
    return float(verdict(completion) == problem.answer)


def verdict(completion: str) -> str | None:
    """Returns the verdict in the last box; None if there is no box, or if the box contains another text.

    >>> verdict("\\\\boxed{proved} no, \\\\boxed{\\\\text{Disproved.}}")
    'disproved'
    """
    found = boxed(completion[-200:])
    if found is None:
        return None
    plain = re.sub(r"[^a-z]", "", _TEXT.sub(r"\1", found).lower())
    return plain if plain in VERDICTS else None


@dataclass(frozen=True)
class Statement:
    """`all n in low..high: FORM < bound` or `some n in low..high: FORM >= bound`. The form grows with n, so the largest n decides."""

    quantifier: Literal["all", "some"]
    low: int
    high: int
    times: int  # the form is times * n + plus
    plus: int
    bound: int

    @property
    def text(self) -> str:
        return f"{self.quantifier} n in {self.low}..{self.high}: {self.form('n')}{self.relation}{self.bound}"

    @property
    def relation(self) -> str:
        return "<" if self.quantifier == "all" else ">="

    def form(self, n: str) -> str:
        """Writes the form for n, which is a name or a number."""
        product = n if self.times == 1 else f"{self.times}*{n}"
        return f"{product}{self.plus:+d}"

    def value(self, n: int) -> int:
        return self.times * n + self.plus

    @property
    def true(self) -> bool:
        """Whether the statement is true. All numbers of the range are tried."""
        numbers = range(self.low, self.high + 1)
        return all(self.value(n) < self.bound for n in numbers) if self.quantifier == "all" else any(self.value(n) >= self.bound for n in numbers)

    @property
    def label(self) -> str:
        return VERDICTS[0] if self.true else VERDICTS[1]

    @property
    def proof(self) -> str:
        """The value at the largest n, its comparison with the bound, and the verdict."""
        most = self.value(self.high)
        return f"{self.form(str(self.high))}={most} {most}{self.relation}{self.bound} {'yes' if self.true else 'no'} \\boxed{{{self.label}}}"


def variants(rng: random.Random, level: int) -> tuple[Statement, ...]:
    """Draws a theorem, and returns its four variants: a true and a false upper bound for all n, and a true and a false lower bound for some n."""
    low = rng.randint(1, 5)
    high = rng.randint(low + 2, 9)
    times = 1 if level == 1 else rng.randint(2, 5)
    plus = rng.randint(1, 9) if level < 3 else -rng.randint(1, 9)
    most = times * high + plus
    above, below = [most + rng.randint(1, 3) for _ in range(2)], [most - rng.randint(0, 2) for _ in range(2)]
    return (
        Statement("all", low, high, times, plus, above[0]),
        Statement("all", low, high, times, plus, below[0]),
        Statement("some", low, high, times, plus, below[1]),
        Statement("some", low, high, times, plus, above[1]),
    )


def signature(statements: Sequence[Statement]) -> str:
    """Returns the content of a theorem, which all its variants share: range and form."""
    first = statements[0]
    return f"{first.low} {first.high} {first.times} {first.plus}"


def _theorem(rng: random.Random, level: int) -> Draft:
    made = variants(rng, level)
    shown = rng.choice(made)
    meta = Frozen(variants=tuple((s.text, s.label) for s in made), theorem=signature(made), category=shown.label)
    return Draft(shown.text, shown.label, shown.proof, signature(made), meta)
