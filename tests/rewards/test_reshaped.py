"""Rewards that change another reward: what the rule sees, and what stays as it is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np

from gradus.rewards.repetition import Repetition
from gradus.rewards.reshaped import by_group, reshaped
from gradus.rewards.verified import Verified
from gradus.types import NOT_APPLICABLE, Failed
from tests.rewards.judged import groups, score, trajectory


class Doubled:
    """Doubles the rewards of `of`, and adds 1."""

    needs = ()

    def __init__(self, of):
        self.of, self.seen = of, []

    async def score(self, rows, signals, world):
        def rule(judged):
            self.seen += [(g.rewards.tolist(), [t.right for t in g.trajectories]) for g in judged]
            return [(2 * g.rewards + 1, {"place": np.arange(len(g.trajectories))}) for g in judged]

        return await reshaped(self.of, rows, signals, world, rule)


def verifying(problem, completion):
    return {"yes": 1.0, "no": 0.0, "failed": Failed("broken"), "none": NOT_APPLICABLE}[completion]


def test_answers_without_a_number_are_not_seen_and_do_not_change():
    part = Doubled(Verified())
    first, second = score(part, [trajectory(t) for t in ("failed", "yes", "none", "no")], [trajectory("none")], verify=verifying)
    assert part.seen == [([1.0, 0.0], [True, False]), ([], [])]
    assert [first[1].reward, first[3].reward] == [3.0, 1.0]
    assert [dict(first[i].components) for i in (1, 3)] == [{"verified": 1.0, "place": 0.0}, {"verified": 0.0, "place": 1.0}]
    assert isinstance(first[0].reward, Failed)
    assert first[2].reward is second[0].reward is NOT_APPLICABLE
    assert "place" not in first[0].components


def test_rewards_at_single_actions_stay():
    rows = groups([trajectory("x", tokens=[1, 2, 1, 2])])
    ((judged,),) = asyncio.run(Doubled(Repetition(2, -0.5)).score(rows, {}, SimpleNamespace()))
    assert judged.reward == -1.0  # 2 * -1 + 1
    assert judged.steps == ((0, 2, "repetition", -0.5), (0, 3, "repetition", -0.5))


def test_a_rule_by_group_pays_each_answer():
    def pay(answers):
        return [(t.value + len(answers), {"rank": i, "right": t.right}) for i, t in enumerate(answers)]

    class Paid:
        async def score(self, rows, signals, world):
            return await reshaped(Verified(), rows, signals, world, by_group(pay))

    first, empty = score(Paid(), [trajectory(t) for t in ("no", "failed", "yes")], [trajectory("none")], verify=verifying)
    assert [j.reward for j in first if isinstance(j.reward, float)] == [2.0, 3.0]
    assert dict(first[2].components) == {"verified": 1.0, "rank": 1.0, "right": 1.0}
    assert empty[0].reward is NOT_APPLICABLE
