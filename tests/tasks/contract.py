"""What every generated task of ours must hold: the contract that users test theirs by, and what we ask of our own beside it."""

from __future__ import annotations

from collections.abc import Iterable

from gradus.tasks.generated import HELD_OUT_SHARE, Generated
from gradus.testing import FIXED, Effort, check_task
from gradus.types import Key, Problem
from gradus.types.parts import Task

HOSTILE = (
    *FIXED.values(),
    "=",
    "a=" * 50_000,
    "=" + "a " * 50_000,
    "=１２",
    "=١",
    "=ａ",
    "=K",  # a Kelvin sign: its lower case is a plain k
    "=1e999",
    "=--1",
    "=?",
)
"""No answer to anything. The contract asks that they break nothing; ours must judge each of them wrong."""


def check_contract(task: Task, *, draws: int = 200, limit: int = 220, hints: bool = True) -> None:
    """Solutions, hints, limits, form of the prompt, hostile text, the split and determinism, at every level that the task has."""
    source = task.source
    assert isinstance(source, Generated)
    assert source.levels[1] - source.levels[0] >= 3

    def right(problem: Problem) -> Iterable[str]:
        solution = problem.meta["solution"]
        return (solution, solution + "\n ", *(["".join(problem.meta["hints"]["solution"])] if hints else []))

    check_task(task, right=right, effort=Effort(problems=draws), only=["reference answers"], strict=True)
    check_task(task, right=right, wrong=lambda p: HOSTILE, effort=Effort(problems=3, texts=100, seed=1), strict=True)
    for level in range(source.levels[0], source.levels[1] + 1):
        for p in source.draw(range(draws // 5), level, Key(level)):
            assert p.meta["difficulty"] == level
            assert p.meta["category"]
            if hints:
                assert set(p.meta["hints"]) == {"knowledge", "planning", "solution"}
                assert all(parts and all(parts) for parts in p.meta["hints"].values())
    check_named_level(task, draws, limit)
    check_split(task)


def check_read_back(task: Task) -> None:
    """Problems stored with a run come back with lists for tuples, and are judged as before."""
    assert task.level is not None
    check_task(task, effort=Effort(problems=30, seed=4, levels=(task.level,)), only=["stored and read"], strict=True)


def check_hostile(task: Task, level: int) -> None:
    """What answers nothing is wrong, and nothing breaks the verifier."""
    effort = Effort(problems=3, texts=60, levels=(level,))
    check_task(task, wrong=lambda p: HOSTILE, effort=effort, only=["wrong answers", "hostile answers"], strict=True)


def check_named_level(task: Task, draws: int, limit: int) -> None:
    """The level that is drawn unasked: plain ASCII, short, one user message, an answer that is right when it stands alone."""
    assert task.verify is not None
    for p in task.source.draw(range(draws), None, Key(3)):
        solution = p.meta["solution"]
        assert all(32 <= ord(c) < 127 or c == "\n" for c in p.question + solution), p
        assert len(p.question) <= 100, p
        assert len(p.question) + len(solution) < limit, p
        assert len(solution) < task.sampling.max_tokens
        assert task.verify(p, f"={p.answer}") == 1.0


def check_split(task: Task) -> None:
    """Training and evaluation share no content, whatever key and level."""
    source, held = task.source, task.held_out
    assert isinstance(source, Generated)
    low, high = source.levels
    for level in range(low, high + 1):
        drawn = source.draw(range(60), level, Key(2))
        # An id ends in the first six of the digits that decide the split, so that a rounded threshold tells which side a content is on.
        assert all(int(p.id[-6:], 16) >= int(HELD_OUT_SHARE * 16**6) for p in drawn)
        assert len({p.question for p in drawn}) > 30
    for level, count in ((low, 100), (task.level, 256)):
        kept = held.draw(range(count), level, Key(1))
        assert all(int(p.id[-6:], 16) <= int(HELD_OUT_SHARE * 16**6) for p in kept)
        assert len({p.question for p in kept}) == count
        assert not {p.question for p in kept} & {p.question for p in source.draw(range(200), level, Key(2))}
