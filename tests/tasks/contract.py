"""What every task of generated problems must hold; the tests of such tasks call it."""

from __future__ import annotations

import json
from dataclasses import replace

from gradus.lab.columns import plain_json
from gradus.tasks.generated import HELD_OUT_SHARE, Generated
from gradus.types import Frozen, Key
from gradus.types.parts import Task

HOSTILE = (
    "",
    "=",
    " \n\t ",
    "=" * 100_000,
    "a=" * 50_000,
    "9" * 100_000,
    "=" + "9" * 100_000,
    "=" + "(" * 50_000 + ")" * 50_000,
    "=" + "a " * 50_000,
    "\x00=\n\x00",
    "=１２",
    "=١",
    "=ａ",
    "=K",  # a Kelvin sign: its lower case is a plain k
    "=İ\u202e",
    "=\ud800",
    "=1e999",
    "=--1",
    "=" + "[" * 9999,
    "={0} %s ${PATH}",
    "__import__('os')=((((a+)+)+)+$",
)


def check_contract(task: Task, *, draws: int = 200, limit: int = 220, hints: bool = True) -> None:
    """Solutions, hints, limits, form of the prompt, hostile text, the split and determinism, at every level that the task has."""
    source = task.source
    assert isinstance(source, Generated)
    assert task.verify is not None
    assert source.levels[1] - source.levels[0] >= 3
    for level in range(source.levels[0], source.levels[1] + 1):
        for p in source.draw(range(draws), level, Key(level)):
            solution = p.meta["solution"]
            assert task.verify(p, solution) == 1.0, (p, solution)
            assert task.verify(p, solution + "\n ") == 1.0
            assert p.meta["difficulty"] == level
            assert p.meta["category"]
            if hints:
                assert set(p.meta["hints"]) == {"knowledge", "planning", "solution"}
                assert all(parts and all(parts) for parts in p.meta["hints"].values())
                assert task.verify(p, "".join(p.meta["hints"]["solution"])) == 1.0
        check_hostile(task, level)
    check_named_level(task, draws, limit)
    check_split(task)
    check_read_back(task)


def check_read_back(task: Task, level: int | None = None) -> None:
    """Problems stored with a run come back with lists for tuples, and are judged as before."""
    assert task.verify is not None
    for p in task.source.draw(range(30), level, Key(4)):
        stored = replace(p, answer=json.loads(json.dumps(p.answer)), meta=Frozen(json.loads(plain_json(p.meta))))
        assert task.verify(stored, p.meta["solution"]) == 1.0, p
        assert task.verify(stored, "=?") == 0.0


def check_hostile(task: Task, level: int) -> None:
    for p in task.source.draw(range(5), level, Key(0)):
        for text in HOSTILE:
            assert task.verify(p, text) == 0.0, (p, text[:40])


def check_named_level(task: Task, draws: int, limit: int) -> None:
    """The level that is drawn unasked: plain ASCII, short, one user message, an answer that is right when it stands alone."""
    for p in task.source.draw(range(draws), None, Key(3)):
        solution = p.meta["solution"]
        assert all(32 <= ord(c) < 127 or c == "\n" for c in p.question + solution), p
        assert len(p.question) <= 100, p
        assert len(p.question) + len(solution) < limit, p
        assert len(solution) < task.sampling.max_tokens
        assert task.verify(p, f"={p.answer}") == 1.0


def check_split(task: Task) -> None:
    """Training and evaluation share no content, whatever key and level; a problem depends on index, level and key alone."""
    source, held = task.source, task.held_out
    assert isinstance(source, Generated)
    low, high = source.levels
    for level in range(low, high + 1):
        drawn = source.draw(range(60), level, Key(2))
        # An id ends in the first six of the digits that decide the split, so that a rounded threshold tells which side a content is on.
        assert all(int(p.id[-6:], 16) >= int(HELD_OUT_SHARE * 16**6) for p in drawn)
        assert len({p.question for p in drawn}) > 30
        again = source.draw([7, 0, 50], level, Key(2))
        assert [(p.id, p.question, p.meta["solution"]) for p in again] == [
            (drawn[i].id, drawn[i].question, drawn[i].meta["solution"]) for i in (7, 0, 50)
        ]
    for level, count in ((low, 100), (task.level, 256)):
        kept = held.draw(range(count), level, Key(1))
        assert all(int(p.id[-6:], 16) <= int(HELD_OUT_SHARE * 16**6) for p in kept)
        assert len({p.question for p in kept}) == count
        assert not {p.question for p in kept} & {p.question for p in source.draw(range(200), level, Key(2))}
