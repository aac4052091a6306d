"""The overlap of sets, their elements in a text, numbers within the tolerance, and what is refused."""

from __future__ import annotations

import pytest

from gradus.rewards.by_answer import ByAnswer, elements, jaccard
from gradus.types import Failed, Frozen, Problem, UserError
from gradus.types.parts import Judgement


def test_jaccard_by_hand() -> None:
    assert jaccard(["1", "2", "3"], ["2", "3", "4"]) == 0.5
    assert jaccard(["A"], ["A", "B", "C", "D"]) == 0.25
    assert jaccard(["A", "A", "B"], ["A", "B"]) == pytest.approx(2 / 3)  # a repeated element is one more
    assert (jaccard([], []), jaccard([], ["A"]), jaccard(["A"], [])) == (1.0, 0.0, 0.0)


def test_elements_of_a_set() -> None:
    assert elements("ABD", 1) == elements("A, B, D", 1) == ["A", "B", "D"]
    assert elements("BA C-D", 2) == ["AB", "CD"]
    assert [elements(text, 1) for text in ("", "none", "A1", "A" * 201)] == [None] * 4
    assert [elements(text, 2) for text in ("", "none", "ABC", "AB1")] == [None] * 4


def test_numbers_within_a_hundredth() -> None:
    problem = Problem("x", "graphs", answer=0.333, meta=Frozen(category="clustering"))
    part = ByAnswer()
    assert [part.credit(problem, text) for text in ("=0.333", "=0.34", "=0.35", "=.34", "0.333", "=one", "=1e9")] == [
        1.0,
        1.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ]
    assert ByAnswer(tolerance=None).credit(problem, "=0.333") == 0.0


def test_a_failed_verdict_stays_failed() -> None:
    part, problem = ByAnswer(), Problem("x", "graphs", answer="AB", meta=Frozen(category="reach"))
    failed = Judgement(Failed("no"))
    assert part._with_credit(failed, problem, f"={problem.answer}") is failed


def test_bad_sets_are_refused() -> None:
    with pytest.raises(UserError, match=r"ByAnswer.sets has reach=3; an element of a set has 1 letter"):
        ByAnswer(sets=Frozen(reach=3))
    with pytest.raises(UserError, match=r"ByAnswer.tolerance is -1"):
        ByAnswer(tolerance=-1)
