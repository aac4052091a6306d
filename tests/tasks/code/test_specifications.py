"""The task specifications: which programs compile, cheat, are verified, and are as strong as the reference."""

from __future__ import annotations

import pytest

from gradus.tasks.code.specifications import Checked, Checker, all_hold, parsed, specifications, tautology
from gradus.testing import Effort, check_task
from gradus.types import Frozen, Key, Problem
from tests.tasks.contract import HOSTILE, check_read_back, check_split

PROBLEM = Problem("x", "specifications", text="", meta=Frozen(lines=("r = x+1",), requires=("x >= 0",), ensures=("r >= x",)))


def test_the_contract() -> None:
    check_task(specifications(), right=lambda p: [p.meta["solution"]], wrong=lambda p: HOSTILE, effort=Effort(problems=6, texts=60), strict=True)
    check_split(specifications())
    check_read_back(specifications())


@pytest.mark.parametrize(
    ("text", "checked"),
    [
        ("req x >= 0; code r = x+1; ens r >= x", Checked(True, True, False, True, True, 1)),
        ("code r = x+1; ens r == x+1", Checked(True, True, False, True, True, 1)),
        ("req x > 0; code r = x+1; ens r == x+1", Checked(True, True, False, True, False, 1)),  # a stronger demand
        ("req x >= 0; code r = x+1; ens r >= 0", Checked(True, True, False, True, False, 1)),  # a weaker promise
        ("req x >= 0; code r = x+1; ens r < x", Checked(True, True, False, False, False, 1)),
        ("code r = x+1; ens true", Checked(True, True, True, True, False, 1)),
        ("code r = x+1; ens true; ens r >= x", Checked(True, True, True, True, True, 2)),  # "true" beside a promise
        ("code r = x+1; ens false", Checked(True, True, True, False, False, 1)),
        ("code r = x+1; ens x <= 8", Checked(True, True, True, True, False, 1)),  # holds for every input
        ("assume x > 3; code r = x+1; ens r >= x", Checked(True, True, True, True, True, 1)),
        ("code r = x+1", Checked(True, True, True, True, False, 0)),
        ("code r = x+1; ens r >= y", Checked(True)),
        ("code r = x+1; ens r + 1", Checked(True)),
        ("code r = x+2; ens r >= x", Checked(False)),
        ("ens r >= x", Checked(False)),
        ("", Checked(False)),
    ],
)
def test_the_stages_by_hand(text: str, checked: Checked) -> None:
    assert Checker().checked(PROBLEM, text) == checked


def test_conditions() -> None:
    assert all_hold(("x >= 0 && r == x+1 || r < 0", "0 <= x <= 3"), x=2, r=3)
    assert not all_hold(("x > 0",), x=0)
    assert tautology("x*x >= 0")
    assert not tautology("r >= x")
    assert parsed("x > 0") is None


def test_the_reference_passes_its_own_check_and_stronger_promises_too() -> None:
    for p in specifications().source.draw(range(40), 2, Key(0)):
        assert Checker()(p, p.meta["solution"]) == 1.0
        shift = Checker().checked(p, p.meta["solution"])
        assert shift.verified
        x = 0
        for line in p.meta["lines"]:
            x = eval_line(line, x)
        assert Checker()(p, p.meta["solution"] + f"; ens r == x{x:+d}") == 1.0  # a promise that the code keeps


def eval_line(line: str, shift: int) -> int:
    return shift + int(line.partition("=")[2].strip().lstrip("xr"))
