"""The task patients: the score, the verdict, and the expert's order of the features."""

from __future__ import annotations

import pytest

from gradus.tasks.text.patients import BOUND, patients, salient, score, verify
from gradus.types import Key, Problem
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(patients(), hints=False)
    check_read_back(patients())


def test_the_score_and_the_verdict() -> None:
    assert score({"b": (9, 0, 1), "d": (0, 0, 9), "f": (0, 0, 9)}) == 10
    problem = Problem("p", "patients", text="", answer="high")
    assert [verify(problem, t) for t in ("b d f: 1=high", "high", "=low", "=high = high ")] == [1.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("level", [1, 4])
def test_both_risks_are_frequent_and_the_expert_knows_the_causes(level: int) -> None:
    found = patients().source.draw(range(200), level, Key(0))
    assert 0.35 < sum(p.answer == "high" for p in found) / 200 < 0.65
    top = [set(p.meta["salient"][:3]) for p in found]
    assert sum(len(t & set("bdf")) for t in top) / 600 > 0.75
    assert all(len(p.meta["salient"]) == 4 + 2 * level for p in found)
    assert BOUND == 9


def test_the_expert_judges_each_patient_apart() -> None:
    flat = dict.fromkeys("abcdef", (4, 4, 4))
    assert salient({**flat, "d": (4, 4, 9)})[0] == "d"
    assert salient({**flat, "f": (4, 4, 0)})[0] == "f"
    assert salient({**flat, "b": (0, 4, 9)})[0] == "b"
