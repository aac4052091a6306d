"""The task segments: the contract, documents by hand, and which text the prompts show."""

from __future__ import annotations

import random

from gradus.tasks.text.segments import MASK, document, segments, verify
from gradus.types import Key, Problem
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(segments(), hints=False)
    check_read_back(segments())


def test_the_sums_of_a_document_are_right() -> None:
    for seed in range(30):
        told = [sentence.split() for sentence in document(random.Random(seed), 4, 9)]
        for i in range(2, len(told), 2):
            change = int(told[i - 1][2]) * (1 if told[i - 1][1] == "gets" else -1)
            assert int(told[i][2]) == int(told[i - 2][2]) + change >= 0


def test_a_gap_shows_what_follows_and_next_does_not() -> None:
    for p in segments().source.draw(range(60), 2, Key(0)):
        kind, _, text = p.question.partition(" ")
        before, gap, after = text.partition(MASK)
        assert p.meta["reference"].startswith(p.answer)
        if kind == "next":
            assert (gap, after) == ("", "")
            assert before.count(".") in (2, 4)
        else:
            assert after.strip(". ") != ""
            assert p.meta["reference"] == f"{p.answer}. {after.strip('. ')}"


def test_the_verdict() -> None:
    problem = Problem("x", "segments", text="", answer="ann has 7")
    assert [verify(problem, t) for t in ("=ann has 7", "7=ann has 7.", "ann has 7", "=ann has 8", "=ann has 7. ann gets 2")] == [1.0, 1.0, 0.0, 0.0, 0.0]
