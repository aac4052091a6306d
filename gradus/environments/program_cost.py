"""The counted cost of a program in the small Python (`mini_python`) over all tests, and the prompt that reports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gradus.environments.mini_python import run
from gradus.types import Problem

INPUTS = (1, 4, 9, 13, 20, 27)
"""The values of n in the tests."""
_LONGEST = 400  # characters of a program that runs


@dataclass(frozen=True)
class Cost:
    """The cost of a program over all tests: `time` in steps, `memory` in entries of lists, and `integral`, the sum of the entries over all statements.

    `passed`: the share of the tests that the program passes. `broken`: whether the program is no program of the language.
    """

    passed: float
    time: int
    memory: int
    integral: int
    broken: bool = False

    @property
    def right(self) -> bool:
        return self.passed == 1.0

    def of(self, goal: str) -> int:
        """Returns the number for a goal: "time", "memory" or "integral"."""
        return int(getattr(self, goal))


def cost(program: str, outputs: Sequence[str]) -> Cost:
    """Returns the cost of a program that should print `outputs` for n in INPUTS. A program of more than 400 characters does not run.

    >>> cost("print(n*2)", [f"{2 * n}\\n" for n in INPUTS])
    Cost(passed=1.0, time=24, memory=0, integral=0, broken=False)
    """
    return _cost(program, tuple(outputs))


@lru_cache(maxsize=4096)
def _cost(program: str, outputs: tuple[str, ...]) -> Cost:
    if len(program) > _LONGEST or not program.strip():
        return Cost(0.0, 0, 0, 0, broken=True)
    made = [run(program, {"n": n}) for n in INPUTS]
    passed = sum(ran.stdout == due and not ran.stderr for ran, due in zip(made, outputs, strict=True)) / len(outputs)
    return Cost(
        passed, sum(r.steps for r in made), max(r.peak for r in made), sum(r.area for r in made), all(r.stderr == "SyntaxError" for r in made)
    )  # fmt: skip


def before(problem: Problem) -> Cost:
    """Returns the cost of the program in the prompt."""
    return cost(problem.meta["program"], problem.answer)


def collected(problem: Problem) -> list[int]:
    """Returns the time of each program that was collected for a problem."""
    return [cost(program, problem.answer).time for program in problem.meta["collected"]]


def asks(says: str, goal: str, old: Cost, program: str) -> str:
    """Returns the prompt of the form "goal"."""
    return f"{says}\n{goal}: {'passed' if old.right else 'failed'} {old.time} {old.memory} {old.integral}\n{program}"
