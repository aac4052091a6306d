from __future__ import annotations

import itertools
import random

import pytest

from gradus.tasks.puzzles.sorting import KINDS, larger_before, sorting, verify
from gradus.types import Key, Problem, UserError
from tests.tasks.contract import check_contract


def test_contract() -> None:
    check_contract(sorting())


def answer_of(question: str) -> list[str]:
    """An independent reading of the prompt: neighbours change places until none is out of order."""
    kind, *items = question.split()
    rank = 0
    if kind == "pick":
        rank, items = int(items[0]), items[2:]
    numeric = items[0].isdigit()
    value = {"lengths": len, "down": lambda x: -int(x)}.get(kind, int if numeric else str)
    changes, moved = 0, True
    while moved:
        moved = False
        for i in range(len(items) - 1):
            if value(items[i]) > value(items[i + 1]):
                items[i], items[i + 1] = items[i + 1], items[i]
                changes, moved = changes + 1, True
    if kind == "distinct":
        items = [x for i, x in enumerate(items) if x not in items[:i]]
    return [str(changes)] if kind == "swaps" else [items[rank - 1]] if kind == "pick" else items


@pytest.mark.parametrize("level", [1, 2, 3, 5])
def test_every_answer_agrees_with_plain_exchanges(level: int) -> None:
    seen = set()
    for p in sorting().source.draw(range(300), level, Key(1)):
        right = answer_of(p.question)
        assert verify(p, "=" + " ".join(right)) == 1.0, p
        assert p.answer == " ".join(right)
        seen.add(p.meta["category"])
        if len(right) > 1:
            assert verify(p, "=" + " ".join(right[::-1])) == 0.0
            assert verify(p, "=" + " ".join(right[:-1])) == 0.0
    assert seen == set(KINDS)


def test_every_other_order_is_wrong() -> None:
    p = sorting(kinds="up").source.draw([0], 1, Key(0))[0]
    right = [verify(p, "=" + " ".join(items)) for items in itertools.permutations(p.meta["items"])]
    assert sorted(right) == [0.0] * 5 + [1.0]


def problem(kind: str, *items: str, rank: int = 0) -> Problem:
    return Problem("x", "sorting", meta={"category": kind, "items": items, "rank": rank})


def test_answers_by_hand() -> None:
    assert verify(problem("up", "9", "10", "2"), "=2 9 10") == 1.0  # as numbers, not as text
    assert verify(problem("up", "9", "10", "2"), "10 2 9 =2, 9, 10 ") == 1.0
    assert verify(problem("up", "9", "10", "2"), "=10 2 9") == 0.0
    assert verify(problem("lengths", "bab", "xu", "cos", "hu"), "=xu hu bab cos") == 1.0  # xu stood before hu
    assert verify(problem("lengths", "bab", "xu", "cos", "hu"), "=hu xu bab cos") == 0.0
    assert verify(problem("distinct", "5", "3", "5"), "=3 5") == 1.0
    assert verify(problem("distinct", "5", "3", "5"), "=3 5 5") == 0.0
    assert verify(problem("pick", "5", "3", "8", rank=2), "=5") == 1.0
    # pairs out of order in 5 2 8 1: (5,2) (5,1) (2,1) (8,1)
    assert larger_before(["5", "2", "8", "1"]) == [0, 1, 0, 3]
    assert verify(problem("swaps", "5", "2", "8", "1"), "5:0 2:1 8:0 1:3 =4") == 1.0


def test_worked_solutions_by_hand() -> None:
    seen = {}
    for p in sorting().source.draw(range(100), 1, Key(0)):
        seen.setdefault(p.meta["category"], p)
    p = seen["up"]
    a, b, _ = p.meta["items"]
    first, second, third = p.meta["solution"].partition(" =")[0].split(", ")
    assert first == a
    assert second.split() == sorted((a, b), key=int)
    assert third == p.answer


def test_the_chance_of_a_random_order() -> None:
    """Guesses that know the form: a random order, three of the numbers (distinct), one of them (pick), five (swaps)."""
    task, rng, right = sorting(), random.Random(0), 0
    problems = task.held_out.draw(range(256), None, Key(0))
    for p in problems:
        items, kind = p.meta["items"], p.meta["category"]
        different = list(dict.fromkeys(items)) if kind == "distinct" else list(items)
        for _ in range(8):
            guess = {"pick": [rng.choice(items)], "swaps": ["5"]}.get(kind, rng.sample(different, len(different)))
            right += verify(p, "=" + " ".join(guess)) == 1.0
    assert abs(right / 2048 - task.chance) < 0.03  # 0.074; standard error 0.006, swaps of one problem stand or fall together: 0.01


def test_kinds_are_chosen_by_name() -> None:
    assert {p.meta["category"] for p in sorting(kinds="swaps,up").source.draw(range(50), None, Key(0))} == {"swaps", "up"}
    with pytest.raises(UserError, match=r'unknown kind of sorting "ap" \(did you mean swaps?'):
        sorting(kinds="ap")
