"""Tutoring: what the student sees, hints and leaks, the student's solutions, the faults of a tutor, and the dialogue."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from gradus.environments.tutoring import START, Student, Tutoring, results, visible
from gradus.types import Frozen, Key, Problem, UserError

STEPS = (("gets", 5), ("doubles", 2), ("loses", 3))  # 6, 11, 22, 19
PROBLEM = Problem("p", "tutor", text="", meta=Frozen(start=6, steps=STEPS, knows=(False, True, False), opens=True))
DESK = Tutoring("<end>")


def played(*messages: str, problem: Problem = PROBLEM, settings: Tutoring = DESK):
    lesson = settings.start(problem, Key(0), None)
    return lesson, [asyncio.run(lesson.step(text)) for text in messages]


def test_the_values_of_the_steps() -> None:
    assert results(6, STEPS) == [11, 22, 19]


def test_thoughts_and_the_end_are_hidden() -> None:
    assert visible("<think>19</think> add <end>", "<end>") == "add"
    assert visible("a<think>b</think>c<think>d", "<end>") == "ac"
    assert visible("a\n<think>b\nc</think>", "<end>") == "a"
    assert visible("<think>a</think>b<think>c</think>d", "<end>") == "bd"


def test_the_right_hint_helps_with_the_first_unclear_step() -> None:
    lesson, turns = played("try take", "try add", "add", "then take")
    assert lesson.first.observation == "6 gets 5?"
    assert [turn.observation for turn in turns] == ["6 gets 5?", "22 loses 3?", "22 loses 3?", "so it is 19"]
    assert lesson.student.known == [True] * 3
    _, (turn,) = played("add or take")  # the first operation counts
    assert turn.observation == "22 loses 3?"
    _, (turn,) = played("take or add")
    assert turn.observation == "6 gets 5?"


def test_a_leak_is_copied_and_a_thought_is_not_read() -> None:
    lesson, (turn,) = played("it is 19")
    assert turn.observation == "so it is 19"
    assert lesson.student.told
    for text in ("<think>it is 19, add</think>go on", "it is 190", "<think>19"):
        lesson, (turn,) = played(text)
        assert (lesson.student.told, turn.observation) == (False, "6 gets 5?")


def test_the_solutions_of_a_student() -> None:
    sure = DESK.student(PROBLEM, ["add", "take"])
    assert replace(sure, slip=0.0).share(50, Key(0)) == 1.0
    assert sure.share(4000, Key(0)) == pytest.approx(0.9**3, abs=0.03)
    assert DESK.student(PROBLEM).share(4000, Key(0)) == pytest.approx(0.9 / 9, abs=0.02)  # two guesses among three operations
    assert DESK.student(PROBLEM, ["19"]).share(9, Key(0)) == 1.0
    assert DESK.student(PROBLEM).share(8, Key(3)) == DESK.student(PROBLEM).share(8, Key(3))
    assert Student(6, STEPS, [True] * 3, slip=1.0).solves(random.Random(0)) is False


def test_the_faults_of_a_tutor() -> None:
    def faults(*messages: str) -> tuple[bool, bool]:
        found = DESK.faults(PROBLEM, messages)
        return found["leak"], found["values"]

    assert faults("try add", "take <end>") == (False, False)
    assert faults("try add", "so 19") == (True, False)
    assert faults("go on") == (False, True)  # no operation is named
    assert faults("add, that is 11") == (False, True)  # the tutor does a step
    assert faults("<think>19 and 11</think>add") == (False, False)
    assert faults() == (False, True)


def test_the_end_and_the_limit() -> None:
    _, turns = played("add", "take", "bye <end>")
    assert (turns[-1].terminated, turns[-1].reward, turns[-1].observation) == (True, 1.0, "")
    _, turns = played("<end>")
    assert (turns[-1].terminated, turns[-1].reward) == (True, 0.0)
    quiet = Problem("p", "tutor", text="", meta=Frozen({**PROBLEM.meta, "opens": False}))
    for problem, count in ((PROBLEM, 8), (quiet, 8)):  # at most 16 messages, whoever opens
        lesson, turns = played(*["hm"] * 9, problem=problem)
        ended = next(i for i, turn in enumerate(turns, 1) if turn.terminated)
        assert ended == count
        assert lesson.first.observation == ("6 gets 5?" if problem is PROBLEM else START)
    with pytest.raises(UserError, match="limit"):
        Tutoring(limit=1)
