"""ToRL: one execution per answer, what is inserted and trained, and the reward."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.credit.groups import GroupRelative
from gradus.environments.tools import Tools
from gradus.objectives.aggregation import TokenMean
from gradus.papers.agents.torl import torl
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.right_or_wrong import RightOrWrong
from gradus.rollouts.episodes import Episodes
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Key, Problem, Request
from gradus.types.spaces import text_inserted
from tests.sandbox.isolated import isolated

TASK = replace(arithmetic(), environment=torl.environment)
(PROBLEM,) = TASK.source.draw([0], 2, Key(0))
ENVIRONMENT: Tools = torl.environment


def block(code: str) -> str:
    return f"```python\n{code}\n```\n```output"


def played(script: list[str], reward: RightOrWrong = torl.reward, calls: int = 1):
    task = replace(TASK, environment=replace(ENVIRONMENT, calls=calls))
    world, policy = scripted_world(task, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=reward)
    (group,) = asyncio.run(torl.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0], policy


@isolated
def test_of_three_blocks_one_is_executed_and_one_output_is_inserted():
    right = str(PROBLEM.meta["solution"])
    one, policy = played([block("6 * 7"), block("1 / 0"), block("x"), right])
    (context,) = one.contexts
    inserted = policy.text(context.tokens[~context.chosen])
    assert inserted == "\n42\n```\n"
    assert one.links["calls"] == ((0, "python", True),)
    assert policy.text(context.tokens[context.chosen]) == block("6 * 7") + block("1 / 0") + block("x") + right  # also the marker is trained
    assert one.reward == 1.0


@isolated
def test_a_failed_block_inserts_one_line_without_loss():
    one, policy = played([block("print(x)"), "7"])
    (context,) = one.contexts
    assert policy.text(context.tokens[~context.chosen]) == "\nNameError: name 'x' is not defined\n```\n"
    assert len(context.logprobs) == context.chosen.sum()
    assert one.links["calls"] == ((0, "python", False),)


@isolated
@pytest.mark.parametrize(
    ("fails", "code", "right", "reward"),
    [(0.0, "x", True, 1.0), (0.5, "x", True, 0.5), (0.0, "x", False, -1.0), (0.5, "x", False, -1.5), (0.5, "1", True, 1.0), (0.5, "1", False, -1.0)],
)
def test_rewards_by_hand(fails, code, right, reward):
    answer = str(PROBLEM.meta["solution"]) if right else "no"
    one, _ = played([block(code), answer], RightOrWrong(fails))
    assert one.reward == reward


@isolated
def test_a_block_that_prints_and_fails_shows_both_and_a_missing_block_is_a_failed_call():
    one, policy = played([block("print(6)\nx"), "7"])
    assert policy.text(one.contexts[0].tokens[~one.contexts[0].chosen]) == "\n6\nNameError: name 'x' is not defined\n```\n"
    one, policy = played(["so ```output", block("1"), str(PROBLEM.meta["solution"])], RightOrWrong(0.5))
    assert one.reward == 0.5
    assert [ok for _, _, ok in one.links["calls"]] == [False]  # it takes the only call
    assert "no block" in policy.text(one.contexts[0].tokens[~one.contexts[0].chosen])


@isolated
def test_the_eighth_opened_output_ends_the_episode():
    right = str(PROBLEM.meta["solution"])
    assert [played([block("1")] * n + [right])[0].reward for n in (7, 8)] == [1.0, -1.0]


@isolated
def test_one_failed_block_of_two_costs_reward():
    right = str(PROBLEM.meta["solution"])
    for blocks in (("x", "1"), ("1", "x")):
        one, _ = played([*map(block, blocks), right], RightOrWrong(0.5), calls=2)
        assert (one.reward, len(one.links["calls"])) == (0.5, 2)


def test_an_answer_without_a_program_is_judged_and_pays_no_penalty():
    one, _ = played([str(PROBLEM.meta["solution"])], RightOrWrong(0.5))
    assert one.reward == 1.0
    assert "calls" not in one.links


def test_an_episode_without_an_answer_is_wrong():
    world, _ = scripted_world(TASK, lambda ask: block(""), reward=torl.reward)
    task = replace(TASK, environment=replace(ENVIRONMENT, calls=0, limit=2))
    world.task = task
    (group,) = asyncio.run(Episodes().run([Request(PROBLEM, 1)], world))
    assert group.trajectories[0].reward == -1.0


def test_without_calls_the_player_writes_on():
    episode = replace(ENVIRONMENT, calls=0).start(Problem("p", "t", answer="4"), Key(0), None)
    turn = asyncio.run(episode.step(block("2 + 2")))
    assert text_inserted(turn.observation) == ""
    assert turn.valid
    assert turn.calls == ()


def test_the_rest_is_grpo():
    assert torl.credit == GroupRelative()
    assert torl.objective["policy"].trust == grpo.objective["policy"].trust
    assert torl.objective["policy"].average == TokenMean()
    assert set(changes(grpo, torl)) >= {"environment", "rollout", "reward"}
    assert torl.objective.get("kl") is None
    assert (torl.environment.calls, torl.setting.prompts, torl.setting.group) == (1, 128, 16)
