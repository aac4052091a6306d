"""Checklists: weighted shares by hand, criteria of each problem, criteria that no longer separate, and problems without criteria."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gradus.rewards.checklist import Checklist, checklist_of, weighted_share
from gradus.rewards.judge import ScriptedPoints
from gradus.testing.methods import TOY, toy_trajectory
from gradus.types import NOT_APPLICABLE, Frozen, Group, UserError


@pytest.mark.parametrize(
    ("grades", "weights", "share"),
    [
        ([1, 0, 1], [5, 3, -4], 0.125), ([1, 1, 0], [5, 3, -4], 1.0), ([0, 0, 1], [5, 3, -4], 0.0), ([1, 0, 1], [3, 2, 1], 0.6667), ([1, 0.5, 0, 1], [1] * 4, 0.625),
        ([1], [-1], 0.0), ([], [], 0.0),
    ],
)  # fmt: skip
def test_shares(grades, weights, share):
    assert weighted_share(grades, weights) == pytest.approx(share, abs=1e-4)


def answer(text, *items, name="t"):
    t = toy_trajectory([2], name=name)
    meta = {k: v for k, v in t.problem.meta.items() if k != "checklist"}
    return t.but(completion=text, problem=replace(t.problem, meta=Frozen({**meta, **({"checklist": items} if items else {})})))


CHECKS = ScriptedPoints(Frozen({c: (lambda problem, text, c=c: c in text) for c in "abcd"}))


def scored(reward, *rows):
    notes = []
    world = SimpleNamespace(task=TOY, note=lambda name, value: notes.append(value))
    found = asyncio.run(reward.score([Group(str(i), tuple(row)) for i, row in enumerate(rows)], {}, world))
    return [[j.reward for j in row] for row in found], notes, found


def test_each_problem_has_its_own_criteria():
    values, notes, found = scored(Checklist(CHECKS), [answer("ab", "a", "c"), answer("ac", "a", "c")], [answer("d", ("d", 3), ("b", 1), ("a", -1))], [answer("x")])
    assert values == [[0.5, 1.0], [0.75], [NOT_APPLICABLE]]
    assert notes == [2, 3]
    assert found[0][0].extra["grades"] == (1.0, 0.0)
    assert found[0][0].components == {"checklist": 0.5}


def test_half_grades():
    class Halves:
        async def points(self, trajectories, criteria, world):
            assert all(c.points == 2 for c in criteria)
            return [[2, 1, 0, 2] for _ in trajectories]

    assert scored(Checklist(Halves(), grades=2), [answer("x", *"abcd")])[0] == [[0.625]]


def test_the_verifier_may_have_the_criteria():
    task = replace(TOY, verify=SimpleNamespace(checklist=lambda problem: [("a", 1.0)]))
    assert checklist_of(answer("x").problem, task) == (("a", 1.0),)
    assert checklist_of(answer("x", "b").problem, task) == (("b", 1.0),)
    with pytest.raises(UserError, match="have no criteria"):
        scored(Checklist(CHECKS), [answer("x")])
    with pytest.raises(UserError, match=r"Checklist\.grades"):
        Checklist(grades=0)
