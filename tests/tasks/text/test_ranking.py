"""Ranking: NDCG by hand, lists with other documents, the contract."""

from __future__ import annotations

import math

import pytest

from gradus.tasks.text.ranking import ranking
from gradus.testing import Effort, check_task
from gradus.types import Key
from gradus.types.gains import ndcg
from tests.tasks.contract import check_hostile, check_read_back, check_split


def test_contract() -> None:
    task = ranking()
    check_task(task, right=lambda p: (p.meta["solution"], "".join(p.meta["hints"]["solution"])), effort=Effort(problems=60), strict=True)
    check_hostile(task, 2)
    check_split(task)
    check_read_back(task)


def test_ndcg_by_hand() -> None:
    # grades 0 3 2: 0 + 3/log2(3) + 2/2 = 2.8928; best 3 + 2/log2(3) = 4.2619
    assert ndcg([0, 3, 2]) == pytest.approx((3 / math.log2(3) + 1) / (3 + 2 / math.log2(3)))
    assert ndcg([0, 3, 2]) == pytest.approx(0.67877, abs=1e-5)
    assert ndcg([3, 2, 0]) == 1.0
    assert ndcg([0, 0]) == 1.0


def test_grades_are_counts_of_query_words() -> None:
    for p in ranking(level=3).source.draw(range(20), 3, Key(0)):
        query, *documents = p.question.split(" | ")
        assert p.meta["grades"] == {text.split()[0]: sum(word in query.split() for word in text.split()[1:]) for text in documents}
        assert len(set(p.meta["grades"].values())) > 1


def test_an_order_is_graded_and_a_wrong_list_earns_nothing() -> None:
    task = ranking()
    for p in task.source.draw(range(20), 2, Key(1)):
        best = p.answer.split()
        assert task.verify(p, f"={', '.join(best)}") == 1.0  # type: ignore[misc]
        worst = task.verify(p, f"={' '.join(reversed(best))}")  # type: ignore[misc]
        assert 0 < worst < 1
        for wrong in (best[:-1], [*best, best[0]], [*best[:-1], "Z"], []):
            assert task.verify(p, f"={' '.join(wrong)}") == 0.0  # type: ignore[misc]
        assert task.verify(p, p.answer) == 0.0  # type: ignore[misc]
