"""Repeated n-grams and loops by hand, the places of the prices, and the score of a loop."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.rewards.repetition import Looped, Repetition, loop, repeated
from gradus.types import UserError
from tests.rewards.judged import score, trajectory


def test_repeated_by_hand() -> None:
    assert repeated([1, 2, 1, 2, 3], 2).tolist() == [False, False, True, True, False]  # only the second "1 2"
    assert not repeated([1, 2, 3, 4], 2).any()
    assert repeated([1, 1, 1], 2).tolist() == [False, True, True]  # n-grams may overlap
    assert repeated([1, 2, 3, 1, 2], 3).tolist() == [False] * 5
    assert repeated([5, 5], 1).tolist() == [False, True]
    assert repeated([], 2).tolist() == []


def slow_loop(tokens: list[int], shortest: int, longest: int, times: int) -> int | None:
    for at in range(len(tokens)):
        for size in range(shortest, longest + 1):
            blocks = [tokens[at + k * size : at + (k + 1) * size] for k in range(times)]
            if all(len(b) == size and b == blocks[0] for b in blocks):
                return at
    return None


def test_a_loop_is_that_of_the_plain_search() -> None:
    draw = np.random.default_rng(0)
    found = []
    for _ in range(300):
        row = draw.integers(0, 2, size=draw.integers(0, 24)).tolist()
        expected = slow_loop(row, 2, 4, 3)
        assert loop(row, shortest=2, longest=4, times=3) == expected
        found.append(expected is not None)
    assert 0.2 < np.mean(found) < 0.9


def looping(before: int, total: int) -> list[int]:
    head = list(range(1000, 1000 + before))
    return (head + [1, 2, 3, 4, 5] * total)[:total]


def test_the_score_of_a_loop_by_hand() -> None:
    assert [Looped().value(looping(at, 100)) for at in (25, 75, 0)] == [0.75, 0.25, 1.0]
    assert Looped().value(list(range(100))) == 0.0
    assert Looped().value([1, 2, 3, 4] * 2) == 0.0  # two blocks are no loop
    assert Looped().value([1, 2, 3] * 4) == 0.0  # the block 1 2 3 is shorter than 4
    assert Looped().value([1, 2, 3] * 6) == 1.0  # three blocks of six
    assert Looped().value([]) == 0.0


def test_prices_are_at_their_tokens() -> None:
    (row,) = score(Repetition(2, -0.5), [trajectory("x", tokens=[1, 2, 1, 2, 3]), trajectory("x", tokens=[1, 2, 3])])
    assert [j.reward for j in row] == [-1.0, 0.0]
    assert row[0].steps == ((0, 2, "repetition", -0.5), (0, 3, "repetition", -0.5))
    assert row[1].steps == ()
    (row,) = score(Looped(2, 3), [trajectory("x", tokens=[9, 1, 2, 1, 2, 1, 2, 7])])
    assert [j.reward for j in row] == [pytest.approx(7 / 8)]


def test_wrong_numbers_are_refused() -> None:
    wrong = ((Repetition, {"n": 0}), (Repetition, {"price": 0.1}), (Looped, {"longest": 3}), (Looped, {"times": 1}))
    for part, fields in wrong:
        with pytest.raises(UserError, match=next(iter(fields))):
            part(**fields)
