"""ReEx-SQL: results and errors within the answer, the terms of the reward by hand, and the tree with its merging and its vote."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch

from gradus.papers.agents.reex_sql import TREE, ExplorationReward, balanced, exploration, reex_sql, result_vote
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.tasks.code.text2sql import script, text2sql
from gradus.testing.methods import check_micro_batches, weights_after
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Frozen, Problem, Request, Trajectory

BASE = script("t", ("a", "b"), [(n, n % 2) for n in range(10)])
GOLD = "SELECT a FROM t WHERE b = 1"
META = Frozen(database=BASE, names=("t", "a", "b"), reference_query=GOLD, category="rows", difficulty=2)
PROBLEM = Problem("p", "text2sql", messages=({"role": "user", "content": "q"},), answer=GOLD, meta=META)
TASK = replace(text2sql(), environment=reex_sql.environment)


def trial(query: str) -> str:
    return f"<intermediate_sql>{query}</intermediate_sql>"


def final(query: str = GOLD) -> str:
    return f"<final_sql>{query}</final_sql>"


def played(*script: str, reward: object = ExplorationReward()):
    world, policy = scripted_world(TASK, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=reward)
    (group,) = asyncio.run(reex_sql.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], policy


def test_results_and_errors_are_inserted_without_loss() -> None:
    said = [trial("SELECT a FROM t"), trial("SELECT c FROM t"), final()]
    one, policy = played(*said)
    (context,) = one.contexts
    assert policy.text(context.tokens[~context.chosen]) == "<result>a\n0\n1\n2\n...</result><result>error: no such column: c</result>"
    assert policy.text(context.tokens[context.chosen]) == "".join(said)
    assert len(context.logprobs) == context.chosen.sum()
    assert [ok for _, _, ok in one.links["calls"]] == [True, False]


def test_only_three_trials_run() -> None:
    one, policy = played(*[trial(f"SELECT {n}") for n in range(4)], final())
    (context,) = one.contexts
    assert policy.text(context.tokens[~context.chosen]) == "<result>0\n0</result><result>1\n1</result><result>2\n2</result>"
    assert (one.links["turns"], one.reward) == (5, 4.5)


@pytest.mark.parametrize(
    ("pieces", "reward"),
    [
        ([trial("SELECT a FROM t"), trial("SELECT b FROM t"), final()], 4.5),  # 3 + 1 + 1/2
        ([trial("SELECT a FROM t"), trial("SELECT a FROM t"), final()], 4.25),
        ([trial("SELECT a FROM t"), trial("SELECT a FROM t WHERE a > 90"), final()], 4.25),  # no rows
        ([trial("SELECT a FROM t"), trial("SELECT c FROM t"), final()], 4.25),  # fails
        ([trial("SELECT c FROM t"), trial("SELECT c FROM t"), trial("SELECT a FROM t"), final()], 4.0),  # the third does not count
        ([trial("SELECT a FROM t"), final()], 4.5),
        ([trial("SELECT c FROM t"), final()], 4.0),
        ([final()], 4.0),
        ([final("SELECT a FROM t")], 2 / 3),  # runs, but differs; names t, a of t, a, b
        ([final("SELECT c FROM t")], -1 + 1 / 3),
        ([final("SELECT 1")], 0.0),
        (["<think>" + final()], -1.0),
        (["<think>x</think>" + final()], 4.0),
        (["</intermediate_sql>", final()], -1.0),
        (["nothing"], -1.0),
        ([trial("SELECT a FROM t")], -1.0),
    ],
)
def test_rewards_by_hand(pieces: list[str], reward: float) -> None:
    one, _ = played(*pieces)
    assert one.reward == pytest.approx(reward)


def test_terms_by_hand() -> None:
    assert exploration([("a", 1), ("b", 2), ("a", 1)]) == 0.5
    assert exploration([("a", 1), ("a", 1)]) == 0.25
    assert exploration([(None, 0), ("b", 1)]) == 0.25
    assert [exploration([("a", 1)]), exploration([("a", 0)]), exploration([])] == [0.5, 0.0, 0.0]
    assert [balanced(final()), balanced(final() + final()), balanced(trial("a")), balanced(trial("<intermediate_sql>a") + final())] == [True, False, False, False]


def test_accuracy_is_the_verdict() -> None:
    right, _ = played(trial("SELECT a FROM t"), final())
    wrong, _ = played(final("SELECT a FROM t"))
    assert (right.right, wrong.right) == (True, False)
    assert right.components == {"environment": 1.0, "execution": 3.0, "entity": 1.0, "explore": 0.5}


def test_the_reward_of_the_environment_is_the_limit() -> None:
    same = reex_sql.but(reward=grpo.reward, rollout=grpo.rollout, environment=None, objective__kl__coefficient=0.04)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (same, grpo)))
    assert set(changes(grpo, reex_sql)) >= {"environment", "rollout", "reward", "objective.kl.coefficient"}
    assert reex_sql.setting.group == 8
    one, _ = played(final(), reward=EnvironmentReturn())
    assert one.reward == 1.0


def test_micro_batches() -> None:
    check_micro_batches(reex_sql)


def test_the_tree_merges_equal_results_and_votes() -> None:
    asked: list[int] = []

    def speak(ask: object) -> str:
        tags = ask.request.tags  # type: ignore[attr-defined]
        turn, number = tags[-1], tags[tags.index("tree") + 1]
        asked.append(turn)
        if turn == 0:  # the results 1, 1 and 2
            return trial(["SELECT 1 AS x", "SELECT 2 - 1 AS x", "SELECT 2 AS x"][number])
        return final([GOLD, "SELECT a FROM t", "SELECT a FROM t WHERE b = 1 OR 1 = 0"][number % 3])

    world, _ = scripted_world(TASK, speak, reward=ExplorationReward())
    TREE.check_task(TASK)
    (group,) = asyncio.run(TREE.run([Request(PROBLEM, 1)], world))
    assert asked.count(0) == 3
    assert asked.count(1) == 6  # two live branches with three continuations each
    assert group.trajectories[0].right  # four of six leaves have the right result, by two queries


def test_a_leaf_votes_by_its_result() -> None:
    leaves = [Trajectory("x", PROBLEM, (), completion=final(query)) for query in (GOLD, GOLD.lower(), "SELECT a FROM t", "SELECT c FROM t", "")]
    votes = [result_vote(leaf) for leaf in leaves]
    assert votes[0] == votes[1] != votes[2]
    assert votes[3] is votes[4] is None
    same = [Trajectory("x", PROBLEM, (), completion=final(query)) for query in (GOLD.replace("a FROM", "a AS x FROM"), GOLD + " ORDER BY a DESC")]
    assert [result_vote(leaf) for leaf in same] == votes[:1] * 2  # neither names of columns nor the order of rows count
