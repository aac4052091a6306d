"""The task optimisation: production problems in a few words, modelled in a small language that the solver HiGHS runs."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

VARIABLES = "abcd"
_TERM = re.compile(r"([+-]?)\s*(\d{0,6}(?:\.\d{1,4})?)\s*\*?\s*([a-d])\s*")
_PROGRAM = re.compile(r"\s*(max|min)\s+(.+?)\s+st\s+(.+?)(\s+int)?\s*", re.DOTALL)
_LIMIT = re.compile(r"(.+?)(<=|>=|==)\s*(-?\d{1,6}(?:\.\d{1,4})?)\s*")
_CODE = re.compile(r"<python>(.*?)</python>", re.DOTALL)
_LONGEST = 300  # characters of a program


@dataclass(frozen=True)
class Solved:
    """The result of a program that ran: the optimal value and the values of its variables; both are None if the program has no solution."""

    value: float | None
    solution: tuple[float, ...] | None


def optimisation(level: int = 2) -> Task:
    """Makes the task: find the largest profit of two products. `level`, 1 to 4, is the number of limits; from level 3 on, amounts are whole numbers.

    The program is in the last `<python>` tag: "max 3a+5b st 2a+b<=9, a+2b<=8", with "int" at the end for whole amounts. All amounts are at least 0. An answer is
    right if the program runs, and its optimal value v has |v* - v| / (|v*| + 1) < 1e-6. The worked solutions name the products between `<think>` tags, and
    repeat the program between `<model>` tags. `meta["solution_values"]` has the best amounts.
    """
    return generated_task(
        "optimisation", _optimisation, Solver(), level=level, levels=(1, 4), max_tokens=220, chance=0.0,
        about='production problems: "profit 3 5; 2 1 at most 9" -> "...<python>max 3a+5b st 2a+1b<=9</python>"; level: limits',
    )  # fmt: skip


def _optimisation(rng: random.Random, level: int) -> Draft:
    profit = [rng.randint(1, 9) for _ in range(2)]
    rows = [[rng.randint(1, 5) for _ in range(2)] for _ in range(level)]
    most = [rng.randint(6, 30) for _ in rows]
    whole = " int" if level >= 3 else ""
    program = f"max {_sum(profit)} st {', '.join(f'{_sum(row)}<={top}' for row, top in zip(rows, most, strict=True))}{whole}"
    told = "; ".join(f"{row[0]} {row[1]} at most {top}" for row, top in zip(rows, most, strict=True))
    question = f"profit {profit[0]} {profit[1]}; {told}{'; whole' if whole else ''}"
    found = run(program)
    assert found is not None
    values = tuple(round(x, 3) for x in found.solution or ())
    text = f"<think>a b</think><model>{program}</model><python>{program}</python>"
    answer = None if found.value is None else found.value
    return Draft(question, answer, text, question, Frozen(category="production", solution_values=values))


def _sum(factors: Sequence[int]) -> str:
    return "+".join(f"{n}{name}" for n, name in zip(factors, VARIABLES))


def _row(text: str) -> list[float] | None:
    """Returns the factors of the variables of a linear expression; None for another text."""
    out, at = [0.0] * len(VARIABLES), 0
    text = text.strip()
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None or (at > 0 and not found[1]):
            return None
        out[VARIABLES.index(found[3])] += (-1 if found[1] == "-" else 1) * float(found[2] or 1)
        at = found.end()
    return out if at else None


@lru_cache(maxsize=4096)
def run(program: str) -> Solved | None:
    """Solves a program with HiGHS; returns None if the program has an error.

    >>> round(run("max 3a+5b st 2a+1b<=9, 1a+2b<=8").value, 4)
    21.6667
    """
    found = _PROGRAM.fullmatch(program) if len(program) <= _LONGEST and program.isascii() else None
    goal = _row(found[2]) if found else None
    limits = [_LIMIT.fullmatch(text.strip()) for text in found[3].split(",")] if found else []
    rows = [_row(limit[1]) if limit else None for limit in limits]
    if found is None or goal is None or not rows or None in rows:
        return None
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    sign = -1.0 if found[1] == "max" else 1.0
    tops = [float(limit[3]) for limit in limits if limit]
    low = [top if limit[2] in (">=", "==") else -np.inf for limit, top in zip(limits, tops, strict=True) if limit]
    high = [top if limit[2] in ("<=", "==") else np.inf for limit, top in zip(limits, tops, strict=True) if limit]
    whole = np.full(len(VARIABLES), int(found[4] is not None))
    result = milp(sign * np.array(goal), constraints=LinearConstraint(np.array(rows), low, high), integrality=whole, bounds=Bounds(0, np.inf))
    if not result.success:
        return Solved(None, None)
    used = [i for i, name in enumerate(VARIABLES) if name in program.replace("max", "").replace("at", "")]
    return Solved(float(sign * result.fun), tuple(float(result.x[i]) for i in used))


def right_value(due: float | None, found: Solved | None) -> bool:
    """Returns whether a program ran and has the right value; if the problem has no solution, the program must have no solution, either.

    >>> right_value(100.0, Solved(100.00005, ())), right_value(100.0, Solved(100.001, ())), right_value(None, Solved(None, None))
    (True, False, True)
    """
    if found is None or due is None or found.value is None:
        return found is not None and due is None and found.value is None
    return abs(due - found.value) / (abs(due) + 1) < 1e-6


@dataclass(frozen=True)
class Solver:
    """A verifier that runs the program of an answer."""

    def ran(self, completion: str) -> Solved | None:
        """Returns the result of the last program of a completion; None if there is no program, or if the program has an error."""
        found = _CODE.findall(completion[-1000:])
        return run(found[-1].strip()) if found else None

    def right(self, problem: Problem, found: Solved | None) -> bool:
        return right_value(None if problem.answer is None else float(problem.answer), found)

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return float(self.right(problem, self.ran(completion)))
