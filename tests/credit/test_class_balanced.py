"""The factors of classes: by hand, over batches, and for a class without texts."""

from __future__ import annotations

import math

import pytest

from gradus.credit.class_balanced import TRUTH, ClassBalanced, averaged
from gradus.testing.methods import toy_trajectory
from gradus.types import Frozen, Group


def texts(truths, rewards):
    """Verdict texts: one group per answer, with the truth of the answer."""
    return [
        Group(str(i), tuple(toy_trajectory([2], name=f"{i}/{j}", reward=r, links=Frozen({TRUTH: truth})) for j, r in enumerate(row)))
        for i, (truth, row) in enumerate(zip(truths, rewards, strict=True))
    ]


def test_the_advantages_of_a_class_are_scaled_after_the_standardisation():
    rule = ClassBalanced()
    # 6 texts on right answers and 2 on wrong ones: s = sqrt(8 / 12) and sqrt(8 / 4); their ratio is sqrt(3)
    groups = texts([True, True, True, False], [[1, 0]] * 4)
    rows, state = rule.assign(groups, {}, rule.start())
    flat = [c.advantages[0] for row in rows for c in row]
    assert flat == pytest.approx([math.sqrt(2 / 3) * s for s in (1, -1)] * 3 + [math.sqrt(2) * s for s in (1, -1)])
    assert state["wrong"] / state["right"] == pytest.approx(math.sqrt(3))
    assert sum(abs(a) for a in flat[:6]) / sum(abs(a) for a in flat[6:]) == pytest.approx(math.sqrt(3))  # 3 without the factors
    doubled, _ = rule.assign(texts([False], [[1, 1, 0, 0]]), {}, {"right": None, "wrong": 2.0 / 0.9 - math.sqrt(0.5) / 9})
    assert [c.advantages[0] for c in doubled[0]] == pytest.approx([2, 2, -2, -2])  # a factor of 2 outside of the standardisation


def test_the_factors_are_averaged_over_batches_and_a_missing_class_keeps_its_own():
    assert averaged(None, 8, 2, 0.9) == pytest.approx(math.sqrt(2))
    assert averaged(1.0, 8, 2, 0.9) == pytest.approx(0.9 + 0.1 * math.sqrt(2))
    assert averaged(1.3, 8, 0, 0.9) == 1.3
    assert averaged(None, 8, 0, 0.9) is None
    balanced, state = ClassBalanced().assign(texts([True, False], [[1, 0]] * 2), {}, ClassBalanced().start())
    assert [c.advantages[0] for row in balanced for c in row] == [1, -1, 1, -1]
    assert state == {"right": 1.0, "wrong": 1.0}
