"""Countdown: reach a target from given numbers. Each number is used once, in steps such as 9-4=5,5*6=30."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

Step = tuple[int, str, int, int]
"""left, operation, right, result."""

_LEVELS = {  # number of numbers, the largest number, the largest result, operations
    1: (3, 9, 99, "+-"),
    2: (3, 9, 99, "+-*"),
    3: (4, 9, 99, "+-"),
    4: (4, 9, 99, "+-*"),
    5: (4, 25, 999, "+-*/"),
    6: (5, 25, 999, "+-*/"),
    7: (6, 50, 999, "+-*/"),
}
_WORDS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_TAIL = 512
_STEP = re.compile(r"([0-9]{1,9})([-+*/])([0-9]{1,9})=([0-9]{1,9})")
_CHANCE = {1: 0.29, 2: 0.12, 3: 0.17, 4: 0.05, 5: 0.02}  # success of random steps with whole results above 0; measured on 4,096 attempts


def countdown(level: int = 3, misses: int = 0) -> Task:
    """Levels 1 to 7 have three to six numbers. Levels 1 and 3 have + and -. Levels 2 and 4 also have *. Levels 5 to 7 also have / without remainder.

    `misses`: the largest number of attempts that miss the target, in the column `misses` of each problem. The results of these attempts differ.
    Raises: UserError for a negative number.
    """
    if misses < 0:
        raise UserError(f"task countdown: `misses` is {misses}; give 0, or the number of missed attempts that each problem shows")
    return generated_task(
        "countdown",
        partial(_missed, most=misses) if misses else _countdown,
        verify,
        level=level,
        levels=(1, 7),
        max_tokens=48 + 12 * level,
        chance=_CHANCE.get(level, 0.01),
        about='reach a target: "30 from 4 6 9" -> "9-4=5,5*6=30"; level: numbers and operations',
        provides=("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the last attempt (after the last ";") is a list of correct steps that uses every number and ends in the target; else 0.0.

    A step replaces two of the numbers by its result. Results are whole and 0 or more.
    """
    attempt = completion[-_TAIL:].rpartition(";")[2].strip()
    return float(reaches(problem.meta["numbers"], int(problem.answer), attempt))


def reaches(numbers: tuple[int, ...], target: int, attempt: str) -> bool:
    """Returns whether the steps of an attempt are correct, use all numbers and end in the target."""
    left = Counter(numbers)
    texts = attempt.split(",")
    if len(texts) != len(numbers) - 1:
        return False
    for text in texts:
        found = _STEP.fullmatch(text.strip())
        if found is None:
            return False
        a, operation, b, result = int(found[1]), found[2], int(found[3]), int(found[4])
        left.subtract((a, b))
        if min(left[a], left[b]) < 0 or apply(a, operation, b) != result:
            return False
        left[result] += 1
    return left[target] == 1


def apply(a: int, operation: str, b: int) -> int | None:
    """Returns the result; None if the result is negative or not a whole number."""
    if operation == "/":
        return a // b if b and a % b == 0 else None
    result = {"+": a + b, "-": a - b, "*": a * b}[operation]
    return result if result >= 0 else None


def attempt(rng: random.Random, numbers: tuple[int, ...], operations: str, most: int) -> list[Step]:
    """Returns random steps that use the numbers, with results from 1 to `most`. The steps end early if two numbers are drawn that no allowed step joins."""
    left = list(numbers)
    steps: list[Step] = []
    while len(left) > 1:
        a, b = rng.sample(left, 2)
        # A difference or quotient is allowed in one order only. A step whose result equals one of its numbers (a*1) is not allowed.
        ordered = [(a, o, b) if o in "+*" else (max(a, b), o, min(a, b)) for o in operations]
        fitting = [(x, o, y, r) for x, o, y in ordered if (r := apply(x, o, y)) is not None and 1 <= r <= most and r not in (x, y)]
        if not fitting:
            return steps
        step = rng.choice(fitting)
        left.remove(a)
        left.remove(b)
        left.append(step[3])
        steps.append(step)
    return steps


def text(steps: list[Step]) -> str:
    return ",".join(f"{a}{operation}{b}={result}" for a, operation, b, result in steps)


def rules(level: int) -> tuple[int, int, int, str]:
    """Returns the settings of a level: how many numbers, the largest number, the largest result, and the operations."""
    return _LEVELS[level]


def _countdown(rng: random.Random, level: int) -> Draft:
    count, most, largest, operations = _LEVELS[level]
    steps: list[Step] = []
    numbers: tuple[int, ...] = ()
    while len(steps) < count - 1 or steps[-1][3] in numbers:
        numbers = tuple(rng.randint(1, most) for _ in range(count))
        steps = attempt(rng, numbers, operations, largest)
    target = steps[-1][3]
    return Draft(
        question=f"{target} from {' '.join(map(str, numbers))}",
        answer=target,
        solution=text(steps),
        content=f"{target} from {sorted(numbers)}",
        meta=Frozen(numbers=numbers, hints=hints(steps), category="".join(sorted({s[1] for s in steps}))),
    )


def _missed(rng: random.Random, level: int, most: int) -> Draft:
    """Makes the draft of `_countdown`, with a column of attempts that miss the target."""
    draft = _countdown(rng, level)
    _, _, largest, operations = _LEVELS[level]
    found: dict[int, str] = {}
    for _ in range(16 * most):
        steps = attempt(rng, draft.meta["numbers"], operations, largest)
        if len(steps) == len(draft.meta["numbers"]) - 1 and steps[-1][3] != draft.answer and len(found) < most:
            found.setdefault(steps[-1][3], text(steps))
    return replace(draft, meta=Frozen({**draft.meta, "misses": tuple(found.values())}))


def hints(steps: list[Step]) -> Frozen[tuple[str, ...]]:
    """Returns three kinds of hint, from abstract to concrete, each in four consecutive parts.

    For example, for 9-4=5,5*6=30: knowledge "start with 9| and 4|, subtract them|, to get 5"; planning "multiply last|, subtract first|, the first step
    gives 5|, the last takes 5 and 6"; solution "9-4|=5|,5*6|=30". With more steps the parts of the solution are longer.
    """
    a, first, b, result = steps[0]
    c, last, d, _ = steps[-1]
    knowledge = (f"start with {a}", f" and {b}", f", {_WORDS[first]} them", f", to get {result}")
    planning = (f"{_WORDS[last]} last", f", {_WORDS[first]} first", f", the first step gives {result}", f", the last takes {c} and {d}")
    pieces = [piece for i, (x, o, y, r) in enumerate(steps) for piece in (f"{',' if i else ''}{x}{o}{y}", f"={r}")]
    cuts = [round(len(pieces) * i / 4) for i in range(5)]
    solution = tuple("".join(pieces[i:j]) for i, j in pairwise(cuts))
    return Frozen(knowledge=knowledge, planning=planning, solution=solution)
