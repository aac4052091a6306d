"""Two judges in a row: which answers are sent on, what the second one sees, and failures."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from gradus.rewards.cascade import Cascade
from gradus.rewards.combine import Combines
from gradus.rewards.verified import Verified
from gradus.testing.methods import toy_group
from gradus.types import NOT_APPLICABLE, Failed, Frozen, UserError
from gradus.types.parts import Judgement


class Given(Combines):
    """A reward that gives listed values, and counts the answers that it sees."""

    needs = ()

    def __init__(self, name, *values):
        self.name, self.values, self.seen = name, values, 0

    async def score(self, groups, signals, world):
        return [[self.next() for _ in g.trajectories] for g in groups]

    def next(self):
        self.seen += 1
        value = self.values[self.seen - 1]
        return Judgement(value, Frozen({self.name: value}))


def scored(reward, *groups):
    notes = []
    world = SimpleNamespace(note=lambda name, value: notes.append(value))
    return asyncio.run(reward.score([toy_group(*row) for row in groups], {}, world)), notes


def test_only_rejected_answers_are_sent_on():
    first, then = Given("rule", 1.0, 0.0, 0.0, 0.0), Given("learned", 1.0, 0.0, 0.0)
    (row,), notes = scored(Cascade(then, first), [1, 0, 0, 0])
    assert [j.reward for j in row] == [1.0, 1.0, 0.0, 0.0]
    assert then.seen == 3
    assert notes == [False, True, True, True]
    assert [j.components["learned"] for j in row] == [NOT_APPLICABLE, 1.0, 0.0, 0.0]
    assert [j.components["rule"] for j in row] == [1.0, 0.0, 0.0, 0.0]


def test_failures_are_not_sent_on():
    failed = Failed("x")
    then = Given("then")
    (row,), _ = scored(Cascade(then, Given("rule", failed, NOT_APPLICABLE)), [1, 0])
    assert [j.reward for j in row] == [failed, NOT_APPLICABLE]
    assert then.seen == 0


def test_what_is_refused():
    with pytest.raises(UserError, match="two different rewards"):
        Cascade(Verified())
