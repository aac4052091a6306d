"""The task arithmetic: sums, differences and products, worked out column by column."""

from __future__ import annotations

import random
import re
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

_TAIL = 64  # characters at the end of a completion that are read


def arithmetic(level: int = 3, operations: str = "+-*", repeats: int = 1) -> Task:
    """Makes the task: add or subtract two numbers of `level` digits (1 to 8), or multiply one number by a digit. `level` 1: a number up to 99 and a digit.

    `operations`: one or more of + - *. `repeats`: worked solutions write each column a random number of times, from 1 to `repeats`, drawn for each
    column. Problems and verdicts do not depend on `repeats`.  Raises: UserError for other operations, and for `repeats` below 1.
    """
    if repeats < 1:
        raise UserError(f"task arithmetic: `repeats` is {repeats}; give 1, or more for longer worked solutions")
    if not operations or set(operations) - set("+-*"):
        raise UserError(f'task arithmetic: `operations` is "{operations}"; give one or more of + - *')
    return generated_task(
        "arithmetic",
        partial(_arithmetic, operations=operations, repeats=repeats),
        verify,
        level=level,
        levels=(1, 8),
        max_tokens=12 + 12 * level * repeats,
        chance=0.01 if level == 1 else 0.0,  # about a hundred results are likely at level 1, a thousand or more at higher levels
        about='sums, differences and products: "347+285" -> "...=632"; level: digits',
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the completion ends with "=" and the answer, which is a whole number in ASCII digits; else 0.0."""
    _, marker, last = completion[-_TAIL:].rpartition("=")
    found = re.fullmatch(r"\s*(-?[0-9]{1,20})\s*", last)
    return float(bool(marker) and found is not None and int(found[1]) == problem.answer)


def _arithmetic(rng: random.Random, level: int, operations: str, repeats: int) -> Draft:
    operation = rng.choice(operations)
    if level == 1:
        a, b = rng.randint(0, 99), rng.randint(0, 9)
    else:
        a, b = (rng.randint(10 ** (level - 1), 10**level - 1) for _ in range(2))
    if operation == "*":
        b = rng.randint(2, 9)
    if operation == "-" and a < b:
        a, b = b, a
    answer = {"+": a + b, "-": a - b, "*": a * b}[operation]
    first, second = sorted((a, b)) if operation == "+" else (a, b)
    steps = [step for column in columns(a, operation, b) for step in [column] * (rng.randint(1, repeats) if repeats > 1 else 1)]
    return Draft(
        question=f"{a}{operation}{b}",
        answer=answer,
        solution=" ".join([*steps, f"={answer}"]),
        content=f"{first}{operation}{second}",
        meta=Frozen(category=operation),
    )


def columns(a: int, operation: str, b: int) -> list[str]:
    """Returns the steps of the written method, units first, for whole numbers a, b >= 0 (a >= b for "-", b < 10 for "*").

    347+285: 7+5=12, 4+8+1=13, 3+2+1=6.  632-285: 12-5=7, 12-8=4, 5-2=3.  347*6: 7*6=42, 4*6=24+4=28, 3*6=18+2=20.
    """
    width = len(str(a)) if operation == "*" else max(len(str(a)), len(str(b)))
    tops = [int(d) for d in reversed(str(a).zfill(width))]
    lows = [b] * width if operation == "*" else [int(d) for d in reversed(str(b).zfill(width))]
    steps, carry = [], 0
    for top, low in zip(tops, lows, strict=True):
        if operation == "+":
            total = top + low + carry
            steps.append(f"{top}+{low}{f'+{carry}' if carry else ''}={total}")
            carry = total // 10
        elif operation == "-":
            top -= carry  # borrowed by the column to the right
            carry = int(top < low)
            steps.append(f"{top + 10 * carry}-{low}={top + 10 * carry - low}")
        else:
            steps.append(f"{top}*{low}={top * low}{f'+{carry}={top * low + carry}' if carry else ''}")
            carry = (top * low + carry) // 10
    return steps
