"""RLVR across domains: soft rewards, standardised batches and kappa by hand, rows for a verifier, and exact verdicts at the limit."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.groups import LeaveOneOut
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.rewards.rlvr_cross_domain import VERDICT, Judgements, VerdictChance, kappa, rlvr_cross_domain
from gradus.recipe.core import changes
from gradus.rewards.judged import Judged
from gradus.rewards.player_judge import TOO_LONG
from gradus.rewards.scripted_judge import ScriptedJudge
from gradus.rewards.verdicts import Better, Case, YesNo, soft_verdict
from gradus.rewards.verified import Verified
from gradus.testing.methods import (
    TOY,
    advantages_of,
    check_micro_batches,
    scripted_world,
    toy_group,
    toy_trajectory,
    train_toy,
    weights_after,
)
from gradus.types import Failed, Frozen, Group, Problem, UserError
from gradus.types.players import Player


def test_soft_rewards():
    assert soft_verdict(0.9, 0.1) == 0.9
    assert soft_verdict(0.3, 0.7) == pytest.approx(0.3)
    assert soft_verdict(0.1, 0.7) == pytest.approx(0.3)
    assert soft_verdict(0.999, 0.0) > 0.99
    assert soft_verdict(0.0, 0.999) < 0.01
    assert [VERDICT.read(text, None) for text in ("1", "0", "?")] == [(1.0,), (0.0,), None]  # the written verdict
    assert (rlvr_cross_domain.reward.judge, rlvr_cross_domain.reward.unread) == (VerdictChance("verifier"), 0.0)


TEXT = Problem("p/0", "p", text="q")
CASES = [Case(f"c{i}", TEXT, (text,)) for i, text in enumerate(("good", "bad"))]
FORM = YesNo(template="{answer}?")


def test_a_soft_verdict_by_hand():
    # log-probabilities: yes -0.2, no -2: yes is likelier, so 0.8187; then yes -3, no -0.5: 1 - 0.6065
    world, _ = scripted_world(TOY, lambda ask: "")
    world.players["judge"] = world.players["policy"]
    rows = iter([[-0.1, -0.1, 0.0, 0.0], [-2.0, 0.0, 0.0], [-3.0, 0, 0, 0], [-0.5, 0, 0]])
    asked = []

    async def score(contexts, want, player):
        asked.extend((world.text(c.sequence, player), c.actions) for c in contexts)
        return [np.array(next(rows), np.float32) for _ in contexts]

    world.score = score
    found = asyncio.run(VerdictChance("judge").decide(FORM, CASES, world))
    assert found == [(pytest.approx(math.exp(-0.2)),), (pytest.approx(1 - math.exp(-0.5)),)]
    assert asked == [("good?yes", 4), ("good?no", 3), ("bad?yes", 4), ("bad?no", 3)]  # the end token counts
    with pytest.raises(UserError, match="soft"):
        asyncio.run(VerdictChance("judge").decide(Better(), [Case("c", TEXT, ("x", "y"))], world))


def test_a_prompt_that_does_not_fit_has_no_verdict():
    world, _ = scripted_world(TOY, lambda ask: "", context_length=20)
    world.players["judge"] = world.players["policy"]
    assert asyncio.run(VerdictChance("judge").decide(FORM, [Case("c", TEXT, ("long" * 9,))], world)) == [TOO_LONG]


def test_a_soft_verdict_of_a_real_policy():
    rows = []
    recipe = grpo.derive(
        "soft", "x", reward=Judged(VerdictChance("judge"), YesNo(template="{answer}", yes="a", no="b")), players__judge=Player()
    )
    train_toy(recipe, steps=1, watch=lambda run, row, groups: rows.extend(t.reward for g in groups for t in g.trajectories))
    assert rows
    assert all(0 < r < 1 for r in rows)


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
