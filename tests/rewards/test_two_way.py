"""The two-way match of whole words, in which only the final answer counts."""

from __future__ import annotations

import pytest

from gradus.rewards.overlap import contains
from gradus.rewards.two_way import judged, two_way
from gradus.types import NOT_APPLICABLE, Problem


@pytest.mark.parametrize(
    ("said", "gold", "due"),
    [
        ("Paris, France", "Paris", 1.0),
        ("Paris", "Paris, France", 1.0),
        ("Lyon", "Paris, France", 0.0),
        ("PARIS.", "paris", 1.0),
        ("is", "Paris", 0.0),  # whole words
        ("France Paris", "Paris, France", 0.0),  # consecutive ones
        ("", "Paris", 0.0),
        ("...", "Paris", 0.0),
    ],
)
def test_the_match_goes_both_ways(said: str, gold: str, due: float) -> None:
    assert two_way(rf"so it is \boxed{{{said}}}", gold) == due
    assert two_way(f"a chain ={said}", gold) == due


def test_only_the_final_answer_counts() -> None:
    assert two_way(r"\boxed{Paris} no, \boxed{Lyon}", "Paris") == 0.0
    assert two_way("it could be Paris", "Paris") == 0.0  # no mark of an answer
    assert two_way("answer: Paris", "Paris") == 1.0


def test_a_list_of_answers_and_none() -> None:
    assert judged(Problem("x", "qa", answer=["Lyon", "Paris"]), "=Paris") == 1.0
    assert judged(Problem("x", "qa", answer=7), "=7") == 1.0
    assert judged(Problem("x", "qa"), "=7") is NOT_APPLICABLE


def test_containment() -> None:
    assert contains(["a", "b", "c"], ["b", "c"])
    assert not contains(["a", "b", "c"], ["a", "c"])
    assert not contains(["a"], ["a", "b"])
    assert not contains(["a"], [])
