"""Think2SQL: the agreement of tables by hand, the form, a query that fails, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.agents.think2sql import TableReward, agreement, form, think2sql
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.tasks.code.text2sql import script, text2sql
from gradus.testing.methods import TOY, check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem

BASE = script("t", ("a", "b"), ((2, 3), (4, 5), (1, 2)))
GOLD = "SELECT a, b FROM t WHERE a > 1"


def judged(*texts: str, reward: TableReward = TableReward(), gold: str = GOLD) -> list:
    meta = Frozen(database=BASE, names=("t", "a", "b"), reference_query=gold, category="rows")
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=Problem("p", "text2sql", text="q", meta=meta), completion=c) for i, c in enumerate(texts))
    world, _ = scripted_world(text2sql(), lambda ask: "")
    (found,) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return found


def said(query: str) -> str:
    return f"<reasoning>r</reasoning><answer>{query}</answer>"


def test_cells_and_rows_by_hand() -> None:
    due = [(2, 3), (4, 5)]
    precision, recall, rows = agreement([(1,), (2,), (3,)], due)  # two of three cells are among the four; 2 rows against 3
    assert (precision, recall, rows) == (pytest.approx(2 / 3), 0.5, pytest.approx(2 / 3))
    assert round((precision + recall + rows) / 3, 3) == 0.611
    assert agreement([(4, 5), (2, 3)], due) == (1.0, 1.0, 1.0)  # in another order
    assert agreement([(2,), (2,), (2,)], [(2,)]) == (pytest.approx(1 / 3), 1.0, pytest.approx(1 / 3))  # as multisets
    assert agreement([], due) == (0.0, 0.0, 0.0)
    assert agreement(due, []) == (0.0, 0.0, 0.0)
    assert agreement([], []) == (1.0, 1.0, 1.0)
    assert agreement([(None, 1.0)], [(1, None)]) == (1.0, 1.0, 1.0)


def test_rewards_by_hand() -> None:
    right, reordered, partial, bare = judged(said(GOLD), said(GOLD + " ORDER BY a DESC"), said("SELECT a FROM t WHERE a > 1"), f"=> {GOLD}")
    assert right.reward == pytest.approx(1.0)
    assert reordered.reward == pytest.approx(1.0)
    assert reordered.components["verified"] == 1.0
    # cells 2 and 4 of 2, 3, 4, 5 in two rows: precision 1, recall 1/2, rows 1
    assert partial.reward == pytest.approx(0.85 * 2.5 / 3 + 0.15)
    assert (partial.components["verified"], partial.components["recall"]) == (0.0, 0.5)
    assert bare.reward == pytest.approx(0.85)


def test_a_query_that_fails_still_earns_its_form() -> None:
    fails, none, half = judged(said("SELECT c FROM t"), "nothing", f"<answer>{GOLD}</answer>")
    assert fails.reward == pytest.approx(0.15)
    assert fails.components == {"verified": 0.0, "table": 0.0, "precision": 0.0, "recall": 0.0, "rows": 0.0, "form": 1.0, "tags": 1.0}
    assert none.reward == 0.0
    assert half.reward == pytest.approx(0.85 + 0.05 * 0.5)


def test_the_form_by_hand() -> None:
    assert form(said("x")) == {"form": 1.0, "tags": 1.0}
    assert form(said("x") + "</answer>") == {"form": 0.0, "tags": 0.75}
    assert form("<answer>x</answer><reasoning>r</reasoning>") == {"form": 0.0, "tags": 1.0}
    assert form("") == {"form": 0.0, "tags": 0.0}


def test_the_exact_variant_pays_for_the_verdict_only() -> None:
    right, partial = judged(said(GOLD), said("SELECT a FROM t WHERE a > 1"), reward=TableReward("exact"))
    assert (right.reward, partial.reward) == (pytest.approx(1.0), pytest.approx(0.15))
    wrong_order = judged(said("SELECT a FROM t ORDER BY a DESC"), reward=TableReward("exact"), gold="SELECT a FROM t ORDER BY a")[0]
    assert wrong_order.reward == pytest.approx(0.15)
    assert judged(said("SELECT a FROM t ORDER BY a DESC"), gold="SELECT a FROM t ORDER BY a")[0].reward == pytest.approx(1.0)


def test_with_the_verdict_alone_it_is_grpo() -> None:
    base = grpo.but(objective__kl=None, players__reference=None)
    for reward in (Verified(), TableReward("exact", Frozen(table=1.0))):
        assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (think2sql.but(reward=reward), base)))
    assert set(changes(grpo, think2sql)) == {"reward", "objective.kl", "players.reference", "setting.group"}
    assert TOY.verify is not None
    check_micro_batches(think2sql)


def test_a_failed_verdict_stays_failed() -> None:
    meta = Frozen(database=BASE, names=("t",), reference_query="SELECT nothing FROM t")
    one = toy_trajectory([2]).but(problem=Problem("p", "text2sql", text="q", meta=meta), completion=said(GOLD))
    world, _ = scripted_world(text2sql(), lambda ask: "")
    ((found,),) = asyncio.run(TableReward().score([Group("g", (one,))], {}, world))
    assert not isinstance(found.reward, float)
