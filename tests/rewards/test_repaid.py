"""Rewards of a group that are replaced: who is asked, what stays."""

from __future__ import annotations

from gradus.rewards.repaid import repaid
from gradus.rewards.verified import Verified
from gradus.testing.methods import toy_group
from gradus.types import NOT_APPLICABLE, Failed, Frozen
from gradus.types.parts import Judgement


def doubled(answers):
    return [(2 * t.value + (0.5 if t.right else 0.0), {"rank": float(i)}) for i, t in enumerate(answers)]


def test_answers_with_a_number_are_paid_again_and_the_verdict_stays():
    group = toy_group(0, 0, 0, 0)
    failed = Failed("late")
    judged = [Judgement(1.0), Judgement(failed), Judgement(NOT_APPLICABLE), Judgement(0.25, Frozen(verified=0.0, form=0.25))]
    found = repaid(Verified(), group, judged, doubled)
    assert [j.reward for j in found] == [2.5, failed, NOT_APPLICABLE, 0.5]
    assert [dict(j.components) for j in found] == [
        {"verified": 1.0, "rank": 0.0},
        {"verified": failed},
        {"verified": NOT_APPLICABLE},
        {"verified": 0.0, "form": 0.25, "rank": 1.0},
    ]
