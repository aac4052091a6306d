"""The task optimisation: programs that run and that do not, values by hand, and the tolerance."""

from __future__ import annotations

import pytest

from gradus.tasks.maths.optimisation import Solved, Solver, optimisation, right_value, run
from gradus.testing import Effort, check_task
from gradus.types import Key, Problem
from tests.tasks.contract import HOSTILE, check_read_back, check_split


def test_the_contract() -> None:
    check_task(optimisation(), right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=8, texts=100), strict=True)
    check_split(optimisation())
    check_read_back(optimisation())


@pytest.mark.parametrize(
    ("program", "value", "solution"),
    [
        ("max 3a+5b st 2a+1b<=9, 1a+2b<=8", 65 / 3, (10 / 3, 7 / 3)),  # both limits bind: a = 10/3, b = 7/3
        ("max 3a + 5b st 2a+b<=9, a+2b<=8 int", 21.0, (2.0, 3.0)),  # against 20 at (0, 4), 19 at (3, 2) and 17 at (4, 1)
        ("min a+b st a+2b>=4", 2.0, (0.0, 2.0)),
        ("max a st a<=2.5", 2.5, (2.5,)),
        ("max a st a<=1, a>=2", None, None),
        ("max a st b<=1", None, None),  # without a bound
    ],
)
def test_programs_that_run(program: str, value: float | None, solution: tuple[float, ...] | None) -> None:
    found = run(program)
    assert found is not None
    assert found.value == (value if value is None else pytest.approx(value))
    assert found.solution == (solution if solution is None else pytest.approx(solution))


@pytest.mark.parametrize("program", ["", "max 3a", "max 3x st x<=1", "max a st a<1", "max a*b st a<=1", "max 3a 5b st a<=1", "max a st " + "a<=1," * 99])
def test_other_programs_do_not_run(program: str) -> None:
    assert run(program) is None


def test_the_tolerance_by_hand() -> None:
    assert right_value(100.0, Solved(100.00005, ()))  # .00005 / 101 = 4.95e-7
    assert not right_value(100.0, Solved(100.001, ()))
    assert right_value(0.0, Solved(0.0, ()))
    assert right_value(None, Solved(None, None))
    assert not right_value(None, None)
    assert not right_value(None, Solved(1.0, ()))


def test_the_verifier_reads_the_last_program() -> None:
    solver, problem = Solver(), Problem("x", "optimisation", text="", answer=2.0)
    assert solver(problem, "<python>max a st a<=1</python><python>max a st a<=2</python>") == 1.0
    assert solver(problem, "max a st a<=2") == 0.0
    for p in optimisation().source.draw(range(20), 3, Key(0)):
        assert solver(p, p.meta["solution"]) == 1.0
        assert all(x == int(x) for x in p.meta["solution_values"])
