"""HBPO: rewards and advantages by hand, budgets and their sentence, and GRPO at the limit without budgets."""

from __future__ import annotations

import asyncio

import pytest

from gradus.credit.groups import GroupRelative
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.hbpo import BudgetAdvantage, BudgetGroups, BudgetReward, hbpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.testing.methods import (
    TOY,
    advantages_of,
    check_bound_acts,
    check_micro_batches,
    check_same_update,
    readable,
    scripted_world,
    toy_group,
)
from gradus.types import Frozen, Key, Request, UserError
from tests.rewards.judged import score, trajectory

PART = BudgetReward(limit=4096, beta=1.0, alpha=0.001)


def right(length: int, budget: int | None, reward: float = 1.0):
    (t,) = toy_group(reward, lengths=[length]).trajectories
    return t if budget is None else t.but(links=Frozen(budget=budget))


def test_rewards_by_hand() -> None:
    assert [PART.best(b, 4096) for b in (512, 1024)] == pytest.approx([0.98079, 0.92388], abs=1e-5)
    assert PART.value(right(100, 512), 4096) == PART.value(right(512, 512), 4096) == PART.best(512, 4096)  # flat within the budget
    assert PART.value(right(600, 512), 4096) == pytest.approx(0.88564, abs=1e-5)
    assert PART.value(right(1100, 512), 4096) == pytest.approx(0.32434, abs=1e-5)
    assert PART.value(right(1100, 1024), 4096) == pytest.approx(0.83634, abs=1e-5)
    assert PART.value(right(3000, 512), 4096) < 0  # far over a small budget, a right answer is below a wrong one
    assert PART.value(right(100, 512, 0.0), 4096) == PART.value(right(5000, 512), 4096) == 0.0
    assert PART.value(right(1024, None), 4096) == PART.best(1024, 4096)


def budgeted(rewards, budgets, best):
    group = toy_group(*rewards)
    rows = [
        t.but(links=Frozen(budget=b), components=Frozen(verified=float(r > 0), budget_value=f))
        for t, b, f, r in zip(group.trajectories, budgets, best, rewards, strict=True)
    ]
    return group.but(trajectories=tuple(rows))


def test_advantages_by_hand() -> None:
    group = budgeted([0.98079, 0, 0.92388, 0.92388], [512, 512, 1024, 1024], [0.98079, 0.98079, 0.92388, 0.92388])
    # mean of 512: 0.49039, minus 0.98079; mean of 1024 minus 0.92388: 0; z-scores 0.66919 -1.72925 0.53003 0.53003
    found = [row[0] for row in advantages_of(BudgetAdvantage(), group)[0]]
    assert found == pytest.approx([0.17880, -2.21965, 0.53003, 0.53003], abs=1e-5)
    wrong = budgeted([0, 0], [512, 1024], [0.98079, 0.92388])
    assert [row[0] for row in advantages_of(BudgetAdvantage(), wrong)[0]] == pytest.approx([-0.98079, -0.92388])
    perfect = budgeted([0.98079, 0.98079], [512, 512], [0.98079, 0.98079])
    assert [row[0] for row in advantages_of(BudgetAdvantage(), perfect)[0]] == [0.0, 0.0]
    with pytest.raises(UserError, match="set --reward BudgetReward"):
        BudgetAdvantage().assign([toy_group(1, 0)], {})


def test_the_sentence_names_the_budget_and_has_no_loss() -> None:
    world, _ = scripted_world(TOY, lambda ask: "xy", reward=Verified())
    asked = [Request(p, count=5) for p in TOY.source.draw([0], None, Key(0))]
    (group,) = asyncio.run(BudgetGroups((8, 16), "about {}: ").run(asked, world))
    assert [t.links["budget"] for t in group.trajectories] == [8, 8, 8, 16, 16]
    (context,) = group.trajectories[3].contexts
    assert readable(context.sequence)[1:] == "about 16: xy|"
    assert readable(context.sequence[context.action_positions]) == "xy|"
    assert [t.actions for t in group.trajectories] == [3] * 5
    assert {t.completion for t in group.trajectories} == {"xy"}
    assert len({t.id for t in group.trajectories}) == 5
    assert BudgetGroups().test == Auto()  # no sentence in evaluation


def test_the_reward_tells_the_value_of_the_budget() -> None:
    rows = [trajectory("yes", tokens=range(10)).but(links=Frozen(budget=b)) for b in (8, 16)]
    (found,) = score(BudgetReward(beta=1.0, alpha=0.01), rows, verify=lambda p, c: 1.0, max_tokens=32)
    # L 32: f2(8) = cos(pi/8) = 0.92388, f2(16) = 0.70711; 10 tokens over 8: cos(10 pi / 64) - 0.02 = 0.86192
    assert [j.reward for j in found] == pytest.approx([0.86192, 0.70711], abs=1e-5)
    assert [j.components["budget_value"] for j in found] == pytest.approx([0.92388, 0.70711], abs=1e-5)


def test_without_budgets_it_is_grpo() -> None:
    plain = hbpo.but(rollout__text="", reward=Verified(), credit=GroupRelative())
    policy = hbpo.objective["policy"]
    base = grpo.but(
        objective__kl=None,
        players__reference=None,
        objective__policy__trust=policy.trust,
        objective__policy__average=policy.average,
        update__count=4,
    )
    check_same_update(plain, base)
    assert {"rollout", "reward", "credit"} <= set(changes(grpo, hbpo))
    check_micro_batches(hbpo)
    check_bound_acts(hbpo, updates=4)
    assert (hbpo.reward.beta, hbpo.reward.alpha, hbpo.rollout.budgets) == (4.0, 1 / 4096, (512, 1024, 2048, 2560))


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="budgets"):
        BudgetGroups(())
    with pytest.raises(UserError, match="alpha"):
        BudgetReward(alpha=-1.0)
