"""The memory of attempts, and the nearest texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradus.rollouts.attempts import attempts_at, nearest, newest_of_others, remembered, similarities
from gradus.testing.methods import toy_trajectory


def tried(problem: str, said: str, reward: float = 0.0):
    made = toy_trajectory([2], reward=reward, completion=said)
    return made.but(problem=replace(made.problem, id=problem, text=f"question {problem}"))


def test_the_newest_attempts_at_the_newest_problems_are_kept() -> None:
    memory = remembered({}, [tried("a", "1"), tried("b", "2", 1.0), tried("a", "3")], attempts=2, problems=2)
    assert memory == {"b": ["question b", [["2", 1.0]]], "a": ["question a", [["1", 0.0], ["3", 0.0]]]}
    later = remembered(memory, [tried("a", "4", 0.5), tried("c", "5")], attempts=2, problems=2)
    assert later == {"a": ["question a", [["3", 0.0], ["4", 0.5]]], "c": ["question c", [["5", 0.0]]]}
    assert memory["a"][1] == [["1", 0.0], ["3", 0.0]]  # the earlier state is as it was
    assert remembered(later, [], attempts=2, problems=2) == later


def test_what_is_read() -> None:
    memory = remembered({}, [tried("a", "1"), tried("b", "2", 1.0), tried("b", "3")], attempts=8, problems=8)
    assert attempts_at(memory, "b") == [("2", 1.0), ("3", 0.0)]
    assert attempts_at(memory, "c") == []
    assert newest_of_others(memory, "a") == [("question b", "3", 0.0)]
    assert len(newest_of_others(memory, "c")) == 2


def test_the_nearest_texts():
    texts = ["tail(rotate(planet))", "head(tail(moon))", "double(moon)", "rotate(star)"]
    assert nearest("rotate(tail(sun))", texts, 1) == [0]
    assert nearest("head(moon)", texts, 1) == [1]
    assert nearest("x", ["a b", "a b"], 2) == [0, 1]  # nothing in common: the earlier one
    assert nearest("", [], 2) == []


def test_texts_below_the_floor_are_left_out() -> None:
    texts = ["nothing alike", "seven plus five", "seven plus one"]
    assert similarities("seven plus five", texts)[:2] == [0.0, pytest.approx(1.0)]
    assert nearest("seven plus five", texts, 3, floor=0.3) == [1, 2]
    assert nearest("seven plus five", texts, 1, floor=0.3) == [1]
    assert nearest("seven plus five", texts[:1], 3, floor=0.3) == []
