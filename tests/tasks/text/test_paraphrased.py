"""The task paraphrased: wordings find different texts, and all have the same answer."""

from __future__ import annotations

from gradus.tasks.text.paraphrased import found, paraphrased
from gradus.types import Key
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(paraphrased(), hints=False)
    check_read_back(paraphrased())


def test_the_search_by_hand() -> None:
    texts = ["bob in rome", "home of bob", "ann in oslo"]
    assert found("where is bob in", texts) == ["bob in rome", "home of bob"]
    assert found("x", texts, 1) == ["bob in rome"]


def test_wordings_differ_in_the_texts_that_they_find() -> None:
    problems = paraphrased().source.draw(range(60), 2, Key(0))
    assert all(len(set(p.meta["paraphrases"])) == 4 and p.meta["paraphrases"][0] == p.question for p in problems)
    differ = sum(len({frozenset(d) for d in p.meta["documents"]}) > 1 for p in problems)
    known = sum(any(p.answer in text for text in seen) for p in problems for seen in p.meta["documents"])
    assert differ > 20
    assert 120 < known < 240  # of 240 wordings some find the answer, and some do not
