"""RLVR across domains: soft rewards, standardised batches and kappa by hand, rows for a verifier, and exact verdicts at the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradus.credit.groups import LeaveOneOut
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.rewards.rlvr_cross_domain import VERDICT, Judgements, kappa, rlvr_cross_domain
from gradus.recipe.core import changes
from gradus.rewards.judged import Judged
from gradus.rewards.player_judge import PlayerJudge
from gradus.rewards.scripted_judge import ScriptedJudge
from gradus.rewards.verdicts import soft_verdict
from gradus.rewards.verified import Verified
from gradus.testing.methods import advantages_of, check_micro_batches, toy_group, toy_trajectory, weights_after
from gradus.types import Failed, Frozen, Group


def test_soft_rewards():
    assert soft_verdict(0.9, 0.1) == 0.9
    assert soft_verdict(0.3, 0.7) == pytest.approx(0.3)
    assert soft_verdict(0.1, 0.7) == pytest.approx(0.3)
    assert soft_verdict(0.999, 0.0) > 0.99
    assert soft_verdict(0.0, 0.999) < 0.01
    assert [VERDICT.read(text, None) for text in ("1", "0", "?")] == [(1.0,), (0.0,), None]  # the written verdict
    assert (rlvr_cross_domain.reward.judge.soft, rlvr_cross_domain.reward.unread) == (True, 0.0)


def firsts(rule, *groups):
    return [[row[0] for row in rows] for rows in advantages_of(rule, *(toy_group(*g, lengths=[1] * len(g)) for g in groups))]


def test_advantages_over_the_batch():
    rule = rlvr_cross_domain.credit
    assert firsts(rule, [1, 1, 0, 0]) == [[1, 1, -1, -1]]
    assert firsts(rule, [1, 1], [0, 0]) == [[1, 1], [-1, -1]]
    assert firsts(rule, [1, 1, 1, 1]) == [[0, 0, 0, 0]]
    assert firsts(LeaveOneOut(), [1, 0, 0, 0])[0] == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])


def test_kappa():
    assert kappa([True, True, False, False], [True, True, False, False]) == 1
    assert kappa([True, False, True, False], [True, True, False, False]) == 0
    assert kappa([True, True], [True, True]) == 1
    assert kappa([True, True, True, False], [True, True, False, False]) == pytest.approx(0.5)  # 3/4 agree, 1/2 by chance


def test_rows_for_a_verifier():
    t = toy_trajectory([2])
    problem = replace(t.problem, answer="1/2")
    rows = [
        t.but(id=str(i), completion=c, problem=problem, reward=r, components=Frozen(judged=r))
        for i, (c, r) in enumerate([("x=0.5", 1.0), ("x=0.5", 1.0), ("x=2", 0.2), ("x=", 0.0), ("x=3", Failed("no reply"))])
    ]
    made = Judgements().rows([Group("g", tuple(rows))])
    assert [(row["answer"], row["solution"]) for row in made] == [("1", "1"), ("0", "0")]
    assert made[0]["prompt"].endswith("Reference answer: 1/2\nAnswer: 0.5\nIs the answer right? 1 or 0:\n")
    assert Judgements().rows([Group("g", tuple(rows), aside=True)]) == []
    assert Judgements().provides == {"solution"}


def test_with_exact_verdicts_it_is_reinforce_with_standardised_verdicts():
    scripted = rlvr_cross_domain.but(reward=Judged(ScriptedJudge()))
    base = reinforce.but(credit=rlvr_cross_domain.credit, reward=Verified())
    one, other, plain = (weights_after(r, steps=3)["policy.logits"] for r in (scripted, base, reinforce))
    assert torch.equal(one, other)
    assert not torch.equal(one, plain)
    due = {"reward", "credit", "players.verifier"}
    assert set(changes(reinforce, rlvr_cross_domain)) - {"setting.group"} == due
    check_micro_batches(rlvr_cross_domain)
    assert rlvr_cross_domain.reward.judge == PlayerJudge("verifier", soft=True)
