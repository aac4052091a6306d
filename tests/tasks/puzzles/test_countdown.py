from __future__ import annotations

import random

import pytest

from gradus.tasks.puzzles.countdown import apply, attempt, countdown, hints, reaches, rules, text, verify
from gradus.types import Frozen, Key, Problem, UserError


def test_steps_by_hand() -> None:
    numbers = (4, 6, 9)
    assert reaches(numbers, 30, "9-4=5,5*6=30")
    assert reaches(numbers, 30, "9-4=5, 6*5=30")
    assert not reaches(numbers, 30, "9-4=5,5*6=31")  # wrong result
    assert not reaches(numbers, 30, "5*6=30")  # 5 is not there, two numbers are left
    assert not reaches(numbers, 30, "9-4=5,5*6=30,30-0=30")  # a number out of nowhere
    assert not reaches(numbers, 54, "6*9=54")  # 4 is left over
    assert not reaches((3, 3, 9), 9, "3-3=0,9-0=8")
    assert not reaches((5, 5), 10, "5+5=10,5+5=10")
    assert reaches((5, 5), 10, "5+5=10")
    assert not reaches((5, 6), 10, "5+5=10")  # one 5 cannot be taken twice


def test_the_last_attempt_counts() -> None:
    p = Problem("x", "countdown", answer=30, meta=Frozen(numbers=(4, 6, 9)))
    assert verify(p, "4*6=24,24+9=33;9-4=5,5*6=30") == 1.0
    assert verify(p, "9-4=5,5*6=30;4*6=24,24+9=33") == 0.0
    assert verify(p, "9-4=5,5*6=30;") == 0.0


def test_results_are_whole_and_not_below_zero() -> None:
    assert [apply(7, o, 2) for o in "+-*/"] == [9, 5, 14, None]
    assert [apply(6, "/", 2), apply(6, "/", 0), apply(2, "-", 3)] == [3, None, None]


def test_attempts_are_right_at_every_level() -> None:
    rng = random.Random(0)
    for level in range(1, 8):
        count, most, largest, operations = rules(level)
        for _ in range(50):
            numbers = tuple(rng.randint(1, most) for _ in range(count))
            steps = attempt(rng, numbers, operations, largest)
            if len(steps) == count - 1:
                assert reaches(numbers, steps[-1][3], text(steps))


def test_hints_by_hand() -> None:
    found = hints([(9, "-", 4, 5), (5, "*", 6, 30)])
    assert found["knowledge"] == ("start with 9", " and 4", ", subtract them", ", to get 5")
    assert found["planning"] == ("multiply last", ", subtract first", ", the first step gives 5", ", the last takes 5 and 6")
    assert found["solution"] == ("9-4", "=5", ",5*6", "=30")


def test_the_whole_solution_hint_solves_every_problem() -> None:
    task = countdown()
    for level in (1, 4, 7):
        for p in task.source.draw(range(30), level, Key(0)):
            assert set(p.meta["hints"]) == {"knowledge", "planning", "solution"}
            assert all(len(parts) == 4 and all(parts) for parts in p.meta["hints"].values())
            assert verify(p, "".join(p.meta["hints"]["solution"])) == 1.0


def test_the_chance_of_random_steps() -> None:
    task, rng, right = countdown(), random.Random(0), 0
    _, _, largest, operations = rules(task.level)
    for p in task.held_out.draw(range(200), None, Key(0)):
        right += sum(verify(p, text(attempt(rng, p.meta["numbers"], operations, largest))) for _ in range(8))
    assert abs(right / 1600 - task.chance) < 0.04  # standard error sqrt(0.12 * 0.88 / 1600) = 0.008, and problems differ


def test_missed_attempts_have_different_results_and_leave_the_problem_as_it_is() -> None:
    plain, missed = (countdown(misses=n).source.draw(range(40), 2, Key(0)) for n in (0, 4))
    for a, b in zip(plain, missed, strict=True):
        assert (a.question, a.answer, a.meta["solution"]) == (b.question, b.answer, b.meta["solution"])
        results = [text.rpartition("=")[2] for text in b.meta["misses"]]
        assert "misses" not in a.meta
        assert 1 <= len(set(results)) == len(results) <= 4
        assert str(b.answer) not in results
        assert all(reaches(b.meta["numbers"], int(result), text) for result, text in zip(results, b.meta["misses"], strict=True))
    with pytest.raises(UserError, match="`misses` is -1"):
        countdown(misses=-1)
