"""The task theorems: truth by enumeration, balanced variants, and the parser of verdicts."""

from __future__ import annotations

import random

import pytest

from gradus.tasks.puzzles.theorems import Statement, theorems, variants, verdict, verify
from gradus.testing import Effort, check_task
from gradus.types import Key


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_contract(level: int) -> None:
    check_task(theorems(level), effort=Effort(problems=30), strict=True)


def test_statements_by_hand() -> None:
    """The largest value of n + 3 for n in 2..9 is 12."""
    one = Statement("all", 2, 9, 1, 3, 13)
    assert (one.text, one.true, one.proof) == ("all n in 2..9: n+3<13", True, "9+3=12 12<13 yes \\boxed{proved}")
    found = [(s, Statement(q, 2, 9, 1, 3, b).true) for q, b, s in (("all", 12, 0), ("some", 12, 1), ("some", 13, 2))]
    assert [true for _, true in found] == [False, True, False]
    other = Statement("some", 1, 4, 3, -2, 11)  # the largest value is 10
    assert (other.text, other.label, other.proof) == ("some n in 1..4: 3*n-2>=11", "disproved", "3*4-2=10 10>=11 no \\boxed{disproved}")


def test_each_theorem_has_two_true_and_two_false_variants() -> None:
    for seed in range(300):
        made = variants(random.Random(seed), 1 + seed % 3)
        assert [s.true for s in made] == [True, False, True, False]
        assert len({s.text for s in made}) == 4


def test_the_labels_are_balanced_and_variants_stay_on_one_side_of_the_split() -> None:
    task = theorems()
    problems = task.source.draw(list(range(3000)), None, Key(0))
    share = sum(p.answer == "proved" for p in problems) / len(problems)
    assert abs(share - 0.5) < 0.02
    held = task.held_out.draw(list(range(20)), None, Key(0))
    assert not {p.meta["theorem"] for p in held} & {p.meta["theorem"] for p in problems}
    assert all((p.question, p.answer) in p.meta["variants"] for p in problems[:50])


def test_the_parser_of_verdicts() -> None:
    assert verdict("\\boxed{proved}") == "proved"
    assert verdict("first \\boxed{proved}, but \\boxed{disproved}") == "disproved"  # the last box wins
    assert verdict("\\boxed{\\text{Proved.}}") == "proved"
    assert verdict("\\boxed{ DISPROVED! }") == "disproved"
    assert [verdict(t) for t in ("proved", "\\boxed{}", "\\boxed{yes}", "\\boxed{proved", "")] == [None] * 5
    (problem,) = theorems().source.draw([0], None, Key(0))
    other = {"proved": "disproved", "disproved": "proved"}[problem.answer]
    assert [verify(problem, f"\\boxed{{{w}}}") for w in (problem.answer, other)] == [1.0, 0.0]
    assert verify(problem, problem.answer) == 0.0  # no box
