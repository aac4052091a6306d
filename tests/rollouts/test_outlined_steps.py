"""Outlines and tries by hand."""

from __future__ import annotations

from string import ascii_lowercase

import pytest

from gradus.papers.guidance.long_cot_collection import SEEDS
from gradus.rollouts.outlined_steps import missed, outlined
from gradus.testing.methods import TOY
from gradus.types import Frozen, Key, Problem


@pytest.mark.parametrize(
    ("budget", "outline"),
    [(3, "try check conclude"), (4, "plan try check conclude"), (5, "try check try check conclude"), (6, "plan try check try check conclude")],
)
def test_an_outline_has_as_many_titles_as_its_budget(budget, outline):
    assert outlined(("plan", "try", "check", "conclude"), budget) == tuple(outline.split())
    assert outlined(("try", "check", "conclude"), budget) == tuple(outline.split())
    assert outlined(SEEDS[2][1], 4) == ("restate", "try", "check", "conclude")


def test_a_try_on_another_task_has_one_other_character_in_its_result():
    (problem,) = TOY.source.draw([0], None, Key(0))
    sums = Problem("s", "sums", text="5+7", answer=12, meta=Frozen(solution="5+7=12"))
    for i in range(20):
        assert sum(a != b for a, b in zip(missed(Key(i).random(), problem, set()), "bb", strict=True)) == 1
        found = missed(Key(i).random(), sums, {"13"})
        assert found.startswith("5+7=")
        assert found[4:] not in ("12", "13")
        assert found[4:].isdigit()
    assert missed(Key(0).random(), Problem("e", "t", text="x", meta=Frozen(solution="=")), set(ascii_lowercase)) == "="  # nothing is left: not kept
