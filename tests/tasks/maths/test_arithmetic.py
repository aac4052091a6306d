from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradus.tasks.maths.arithmetic import arithmetic, columns, verify
from gradus.types import Key, Problem, UserError


def test_columns_by_hand() -> None:
    assert columns(347, "+", 285) == ["7+5=12", "4+8+1=13", "3+2+1=6"]  # 632
    assert columns(632, "-", 285) == ["12-5=7", "12-8=4", "5-2=3"]  # the 3 lends one, then the 6: 347
    assert columns(347, "*", 6) == ["7*6=42", "4*6=24+4=28", "3*6=18+2=20"]  # 2082
    assert columns(95, "+", 7) == ["5+7=12", "9+0+1=10"]  # 102


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from("+-*"))
@settings(max_examples=200, deadline=None)
def test_the_columns_last_digits_spell_the_answer(a: int, b: int, operation: str) -> None:
    a, b = max(a, b), min(a, b)
    b = b % 10 if operation == "*" else b
    answer = {"+": a + b, "-": a - b, "*": a * b}[operation]
    results = [step.rpartition("=")[2] for step in columns(a, operation, b)]
    assert int(results[-1] + "".join(r[-1] for r in reversed(results[:-1]))) == answer


def test_what_counts_as_the_answer() -> None:
    p = Problem("x", "arithmetic", answer=-12)
    right = ("=-12", "7+5=12 = -12 ", "=-012", "=5=-12\n")
    wrong = ("-12", "=12", "=-12.", "=-12 apples", "=- 12", "=-1 2", "=-12=", "=-1_2", "=−12")
    assert [verify(p, text) for text in right] == [1.0] * len(right)
    assert [verify(p, text) for text in wrong] == [0.0] * len(wrong)


def test_operations_are_those_asked_for() -> None:
    problems = arithmetic(level=2, operations="+").source.draw(range(50), None, Key(0))
    assert {p.meta["category"] for p in problems} == {"+"}
    assert {p.meta["category"] for p in arithmetic().source.draw(range(50), None, Key(0))} == set("+-*")
    with pytest.raises(UserError, match='`operations` is "/"; give one or more of'):
        arithmetic(operations="/")


def test_repeats_lengthen_solutions_and_change_nothing_else() -> None:
    plain, wordy = (arithmetic(level=2, repeats=n).source.draw(range(200), None, Key(0)) for n in (1, 4))
    assert [(p.question, p.answer) for p in plain] == [(p.question, p.answer) for p in wordy]
    assert all(verify(p, p.meta["solution"]) == 1.0 for p in wordy)
    steps = [list(dict.fromkeys(p.meta["solution"].split())) for p in wordy]
    assert steps == [list(dict.fromkeys(p.meta["solution"].split())) for p in plain]
    long, short = (sum(len(p.meta["solution"]) for p in found) / 200 for found in (wordy, plain))
    assert 1.9 < long / short < 2.4  # 2.5 of each column in the mean; the answer stands once
    with pytest.raises(UserError, match="`repeats` is 0; give 1, or more"):
        arithmetic(repeats=0)
