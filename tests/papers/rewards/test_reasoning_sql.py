"""Reasoning-SQL: the six terms by hand, who is asked by the judge, the bound between wrong and right, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.reasoning_sql import ClauseJudge, QueryReward, bigram_overlap, clauses, reasoning_sql
from gradus.recipe.core import changes
from gradus.rewards.queries import schema_overlap
from gradus.rewards.verified import Verified
from gradus.tasks.code.text2sql import script, text2sql
from gradus.testing.methods import check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem

GOLD = "SELECT a FROM t WHERE b = 1"
META = Frozen(database=script("t", ("a", "b"), ((1, 1), (2, 2))), names=("t", "a", "b"), reference_query=GOLD, category="rows")


@dataclass(frozen=True)
class Told:
    """A judge that gives the same points to all, and remembers the answers that it read."""

    points_of_all: int = 10
    seen: list[str] = field(default_factory=list, compare=False)

    async def points(self, trajectories, criteria, world):
        self.seen.extend(t.completion for t in trajectories)
        return [[self.points_of_all] for _ in trajectories]


def said(query: str) -> str:
    return f"<reasoning>r</reasoning><answer>{query}</answer>"


def judged(reward: QueryReward, *texts: str) -> list:
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=Problem("p", "text2sql", text="q", answer=GOLD, meta=META), completion=c) for i, c in enumerate(texts))
    world, _ = scripted_world(text2sql(), lambda ask: "")
    (found,) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return found


def test_the_terms_by_hand() -> None:
    (found,) = judged(QueryReward(Told(0)), said("SELECT a FROM t"))
    # names t a of t a b; pairs: select a, a from, from t of these and t where, where b, b =, = 1
    parts = {"verified": 0.0, "executed": 0.0, "judge": 0.0, "schema": 2 / 3, "ngram": 3 / 7, "syntax": 1.0, "form": 1.0}
    assert found.components == {name: pytest.approx(value) for name, value in parts.items()}
    assert found.reward == pytest.approx(2 / 3 + 3 / 7 + 2)


def test_a_right_query_earns_9_and_a_wrong_one_at_most_6() -> None:
    # another query with all tokens of the reference, whose result differs
    right, wrong = judged(QueryReward(Told(10)), said(GOLD), said("SELECT a FROM t WHERE b = 1 AND 1 = 2"))
    assert right.reward == 9.0
    assert wrong.components["executed"] == 0.0
    assert wrong.reward <= 6.0
    assert sum(w for name, w in QueryReward().weights.items() if name != "executed") == 6.0  # judge, schema, n-grams, syntax and form at their best
    bare = QueryReward(Told(10), Frozen(executed=3.0, judge=2.0, syntax=1.0))
    assert judged(bare, "=> SELECT 1 FROM t WHERE a = 1")[0].components["verified"] == 1.0
    assert judged(bare, "=> SELECT 1 FROM t WHERE a = 1")[0].reward == 6.0  # a right result never earns less


def test_the_judge_reads_wrong_queries_only() -> None:
    judge = Told(5)
    found = judged(QueryReward(judge), said(GOLD), said("SELECT b FROM t"), "none")
    assert judge.seen == [said("SELECT b FROM t"), "none"]
    assert [j.components["judge"] for j in found] == [1.0, 0.5, 0.5]


def test_the_scripted_judge_counts_clauses() -> None:
    assert clauses(GOLD) == ["select a", "from t", "where b = 1"]
    found = judged(QueryReward(ClauseJudge()), said("select A from t where b=2"), said("SELECT b FROM t"), "none")
    assert [j.components["judge"] for j in found] == [0.7, 0.3, 0.0]  # 2 of 3 and 1 of 3 of 10 points, rounded


def test_overlaps_at_the_edges() -> None:
    assert schema_overlap("SELECT 1", "SELECT 2", ["t"]) == 1.0  # neither uses a name
    assert bigram_overlap("a b", "a b c") == 0.5
    assert bigram_overlap("a", "a b") == 0.0


def test_a_wrong_form_and_a_query_that_fails() -> None:
    found = judged(QueryReward(Told(0)), f"<answer>{GOLD}</answer>", said("SELECT c FROM t"), "")
    assert [(j.components["form"], j.components["syntax"]) for j in found] == [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
    assert found[0].reward == 8.0
    assert found[2].reward == 0.0


def test_with_the_result_alone_it_is_grpo() -> None:
    base = grpo.but(objective__kl__coefficient=0.001)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (reasoning_sql.but(reward=Verified()), base)))
    assert set(changes(grpo, reasoning_sql)) == {"reward", "objective.kl.coefficient", "players.judge", "setting.group"}
    check_micro_batches(reasoning_sql)
