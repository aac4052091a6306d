"""The task scoring: scores and agreement by hand, the three principles, and other orders of the responses."""

from __future__ import annotations

from collections import Counter

from gradus.tasks.text.scoring import PRINCIPLES, agrees, count, reordered, scores_of, scoring, verify
from gradus.types import Key
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(scoring(), hints=False)
    check_read_back(scoring())


def test_agreement_by_hand() -> None:
    assert [agrees([7, 4, 5], 0), agrees([7, 7, 5], 0), agrees([7, 4, 5], 2)] == [True, False, False]
    assert [agrees([1], 1), agrees([1], 0)] == [True, False]  # a single response: the score is its label
    assert scores_of("length 3=10 1 4", 3) == (10, 1, 4)
    assert [scores_of(t, 2) for t in ("=11 4", "=0 4", "=4", "=4 x", "4 7", "=-4 7", "=4 7 1", "=4.5. 7")] == [None] * 8


def test_the_best_response_follows_the_principle_of_the_query() -> None:
    problems = scoring(3).source.draw(range(90), 3, Key(0))
    assert set(Counter(p.meta["category"] for p in problems)) == set(PRINCIPLES)
    for p in problems:
        counts = [count(p.meta["category"], r) for r in p.meta["responses"]]
        assert p.meta["query"] in PRINCIPLES[p.meta["category"]]
        assert [i for i, n in enumerate(counts) if n == max(counts)] == [p.meta["preferred"]]
        assert verify(p, p.meta["solution"]) == 1.0
    assert len({p.meta["preferred"] for p in problems}) == 4


def test_another_order_moves_the_preference() -> None:
    (p,) = scoring(2).source.draw([5], 2, Key(1))
    order = [2, 0, 1]
    moved = reordered(p, order, "x")
    assert moved.meta["responses"] == tuple(p.meta["responses"][i] for i in order)
    assert order[moved.meta["preferred"]] == p.meta["preferred"]
    scores = p.answer.split()
    assert verify(moved, "=" + " ".join(scores[i] for i in order)) == 1.0
    assert moved.question == f"{p.meta['query']}? A {moved.meta['responses'][0]} B {moved.meta['responses'][1]} C {moved.meta['responses'][2]}"
    assert (moved.id, "solution" in moved.meta) == (f"{p.id}-x", False)
