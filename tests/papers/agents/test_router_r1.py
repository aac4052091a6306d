"""Router-R1: rewards by hand, the window of costs, the form, the experts, and Search-R1's credit without prices."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.routes import routes
from gradus.papers.agents.router_r1 import RoutingReward, broken, cheapness, cost, router_r1
from gradus.papers.agents.search_r1 import search_r1
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods import scripted_world
from gradus.tools.experts import POOL, Route
from gradus.types import Failed, Group, Key, Request, UserError

TASK = replace(search_qa(1, people=40, instruction=False), environment=router_r1.environment)
(PROBLEM,) = TASK.source.draw([0], 1, Key(0))
QUERY = PROBLEM.meta["queries"][0][0]
DEAR = f"<think>ask</think><search>Max: {QUERY}</search>"
RIGHT, WRONG = f"<think>so</think><answer>{PROBLEM.answer}</answer>", "<think>so</think><answer>no</answer>"
TOOL = Route()


def played(*scripts: list[str], reward: RoutingReward | None = None) -> tuple[Group, Any]:
    """The episodes of one question, one per script, and the world."""
    world, policy = scripted_world(
        TASK, lambda ask: scripts[ask.request.sample][min(int(ask.request.tags[-1]), len(scripts[ask.request.sample]) - 1)], reward=reward or router_r1.reward
    )
    (group,) = asyncio.run(router_r1.rollout.run([Request(PROBLEM, len(scripts))], world))
    return group, policy


def test_the_reward_by_hand() -> None:
    assert RoutingReward(alpha=0.3).of(1.0, 0.5, False) == pytest.approx(0.85)
    assert RoutingReward(alpha=0.3).of(0.0, 1.0, False) == 0.0
    assert RoutingReward(alpha=0.3).of(1.0, 1.0, True) == -1.0
    assert RoutingReward().of(1.0, 0.0, False) == 1.0


def test_the_window_by_hand() -> None:
    window = [float(i) for i in range(1, 101)]
    assert cheapness(50.0, window) == pytest.approx(1 - (50 - 5.95) / (95.05 - 5.95))
    assert cheapness(50.0, window) == pytest.approx(0.5056, abs=1e-4)
    assert (cheapness(1000.0, window), cheapness(0.0, window)) == (0.0, 1.0)
    assert cheapness(3.0, [3.0]) == cheapness(3.0, [3.0] * 9) == 0.5


def test_every_episode_enters_the_window_in_order() -> None:
    price = len(PROBLEM.meta["evidence"][0].split()) * 40.0
    group, _ = played([DEAR, RIGHT], [RIGHT], [DEAR, WRONG], ["<search>Zoe: x</search>", RIGHT], reward=RoutingReward(alpha=0.6))
    assert [t.components["cost"] for t in group.trajectories] == [price, 0, price, 0]
    # the first sees a flat window: 0.4 + 0.6 / 2; the second is below the quantiles of (sqrt(price), 0): 0.4 + 0.6
    assert [t.value for t in group.trajectories] == pytest.approx([0.7, 1.0, 0.0, -1.0])

    async def state() -> dict[str, Any]:
        world, _ = scripted_world(TASK, lambda ask: RIGHT)
        _, state = await RoutingReward(window=3).score([group], {}, world, {"roots": [9.0, 9.0]})
        return state

    assert asyncio.run(state())["roots"] == pytest.approx([0.0, price**0.5, 0.0])  # the oldest are gone


def test_an_unknown_name_earns_minus_1_whatever_the_answer() -> None:
    group, _ = played(["<think>a</think><search>Zoe: x</search>", RIGHT], [DEAR, RIGHT])
    assert [t.value for t in group.trajectories] == [-1.0, 1.0]
    assert [t.right for t in group.trajectories] == [True, True]


INFO = "<information>f</information>"
GOOD = f"<think>a</think><search>Max: b</search>{INFO}<answer>c</answer>"


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        (GOOD, False),
        ("<think>a</think><answer>c</answer>", False),
        (GOOD.replace("</think>", ""), True),
        (GOOD.replace("<think>a</think>", "<think></think>"), True),
        (GOOD.replace("<think>a</think>", "<think>...</think>"), True),
        (GOOD.replace("<think>a</think>", ""), True),
        ("so " + GOOD, True),
        (GOOD + "!", True),
        (GOOD + "<answer>c</answer>", True),
        ("<think>a</think>", True),
        (GOOD.replace(INFO, ""), True),
        (GOOD.replace("a</think>", "<answer>a</answer></think>"), True),
        (GOOD.replace("Max: b", "Max b"), True),
        (GOOD.replace("Max: b", "Max: b: c"), True),
        (GOOD.replace("Max: b", "Max: "), True),
        (GOOD.replace("Max: b", "Max: max b"), True),
        (GOOD.replace("Max: b", "Max: your-query"), True),
        (GOOD.replace("Max: b", "Zoe: b"), True),
        (GOOD.replace("Max: b", "MAX: b"), False),
        ("", True),
    ],
)
def test_the_form(text: str, bad: bool) -> None:
    assert broken(text, TOOL) is bad


def test_thoughts_can_be_optional() -> None:
    assert not broken(GOOD.replace("<think>a</think>", ""), TOOL, think=False)
    assert broken(GOOD.replace("<think>a</think>", "<think></think>"), TOOL, think=False)


def test_the_cost_counts_words_times_prices_of_executed_calls() -> None:
    text = "<search>Ann: a</search><information>b c</information><search>Max: d</search><information>e</information><search>Max: f</search>"
    assert cost(text, TOOL) == 2 * 1.0 + 1 * 40.0
    assert cost("<search>Zoe: a</search><information>error b</information>", TOOL) == 0.0
    assert cost("<information>a</information>", TOOL) == 0.0
    assert cost("<think>so <search>Max: a</search><information>b</information></think>", TOOL) == 40.0  # a broken form is charged, too


def test_answers_of_experts_have_no_loss_and_four_calls_are_executed() -> None:
    group, policy = played([DEAR])
    (context,) = group.trajectories[0].contexts
    assert context.actions == 5 * len(DEAR) == np.size(context.logprobs)
    assert policy.text(context.tokens[~context.chosen]).count("<information>") == 4
    assert (group.trajectories[0].components["calls"], group.trajectories[0].value) == (4.0, -1.0)


def test_a_task_without_experts_is_refused() -> None:
    RoutingReward().check(TASK)
    with pytest.raises(UserError, match="has no such tool"):
        RoutingReward().check(search_qa(1, people=40))


def test_a_failed_episode_stays_failed_and_has_no_cost() -> None:
    group, _ = played([DEAR, RIGHT])
    failed = group.but(trajectories=(group.trajectories[0].but(reward=Failed("no expert")),))

    async def scored() -> Any:
        world, _ = scripted_world(TASK, lambda ask: RIGHT)
        return await RoutingReward().score([failed], {}, world, {"roots": []})

    ((one,),), state = asyncio.run(scored())
    assert isinstance(one.reward, Failed)
    assert state == {"roots": []}


def test_the_start_asks_the_dear_expert_in_half_of_its_demonstrations() -> None:
    names, task = [], routes(40)
    for problem in task.source.draw(range(60), 1, Key(1)):
        (_, query), (passage, answer) = cast("Any", problem.meta["demonstration"])
        name, _, question = query.removeprefix("route: ").partition(": ")
        expert = TOOL.named(name)
        assert expert is not None
        assert question.split()[0] in expert.topics
        assert passage == problem.meta["evidence"][0]
        assert answer == f"answer: {problem.answer}"
        names.append(name)
    assert 20 <= names.count("Max") <= 40


def test_numbers_of_the_paper() -> None:
    assert router_r1.reward == RoutingReward(0.0, 1000, True)
    assert (router_r1.environment.calls, router_r1.environment.limit, router_r1.credit.coefficient) == (4, 5, 0.001)
    assert max(one.price for one in POOL) >= 10 * min(one.price for one in POOL)
    assert router_r1.credit == search_r1.credit
    assert router_r1.players == search_r1.players
    assert (router_r1.objective, router_r1.update) == (search_r1.objective, search_r1.update)
    for wrong in ({"alpha": 2.0}, {"window": 0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            RoutingReward(**cast("Any", wrong))
