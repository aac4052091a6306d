"""StepSearch: gain, repeats, the score of queries, the tokens that are rewarded, and the limit without step rewards."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.gae import action_rewards
from gradus.papers.agents.stepsearch import SearchSteps, asked, gains, repeats, similarities, stepsearch
from gradus.rewards.environment import EnvironmentReturn
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods.batches import evaluated
from gradus.testing.methods.scripted import scripted_world
from gradus.types import Frozen, Group, Key, Request, Trajectory, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs, Values

TASK = replace(search_qa(2, people=40, instruction=False), environment=stepsearch.environment)
(PROBLEM,) = TASK.source.draw([0], 2, Key(0))
FIRST, SECOND = (f"<search>{queries[0]}</search>" for queries in PROBLEM.meta["queries"])
RIGHT = f"<answer>{PROBLEM.answer}</answer>"


def played(*script: str, reward: SearchSteps = stepsearch.reward) -> Trajectory:
    world, _ = scripted_world(TASK, lambda ask: script[min(ask.request.tags[-1], len(script) - 1)], reward=reward)
    (group,) = asyncio.run(stepsearch.rollout.run([Request(PROBLEM, 1)], world))
    return group.trajectories[0]


def test_similarity_by_hand() -> None:
    # two texts: "red" is in both, so its weight is 1; "fox" and "dog" are in one, so their weight is 1 + log(3/2)
    weight = 1 + math.log(3 / 2)
    assert similarities("The red fox", ["red dog"]) == pytest.approx([1 / (1 + weight**2)])
    assert similarities("red red fox", ["red"]) == pytest.approx([2 / math.hypot(2, weight)])  # a count is a factor
    assert similarities("red fox", ["fox, red!", "blue", ""]) == pytest.approx([1.0, 0.0, 0.0])


def test_gain_and_repeats_by_hand() -> None:
    assert gains([[0.8, 0.1], [0.5, 0.6]]) == pytest.approx([0.45, 0.25])
    assert gains([[0.8], [0.2], [0.9]]) == pytest.approx([0.8, 0.0, 0.1])  # the best so far counts, not the last
    again = repeats([["a", "b", "c"], ["c", "d", "e"]])
    assert again == pytest.approx([0.0, 1 / 3])
    assert 0.25 - again[1] == pytest.approx(-0.0833, abs=1e-4)
    assert 0.6 * (0.25 - again[1]) == pytest.approx(-0.05)
    assert repeats([["a", "a"]]) == [0.5]  # twice in one search


def test_the_score_of_queries_by_hand() -> None:
    groups = [["home of Ann", "Ann home"], ["mayor of Bor"]]
    assert asked(["mayor of Bor", "home of Ann"], groups) == 1.0
    assert asked(["home of Ann"], groups) == 0.5
    assert asked(["home of Ann", "Ann"], groups) == pytest.approx(1 / 3)  # the last query of the group: F1 2/3 by "Ann home"
    assert asked(["river"], groups) == asked([], groups) == asked(["x"], []) == 0.0


def test_the_perfect_answer_with_both_queries_earns_1_618_and_its_steps() -> None:
    one = played(FIRST, SECOND, RIGHT)
    rewards = action_rewards(one)
    assert rewards[-1] == pytest.approx(1.618)
    assert one.value == pytest.approx(rewards.sum())
    (context,) = one.contexts
    ends = np.flatnonzero(np.append(context.streams["turn"][1:] != context.streams["turn"][:-1], True))
    assert len(ends) == 3
    assert np.flatnonzero(rewards).tolist() == ends.tolist()
    assert rewards[ends[0]] > 0.6 * 0.45  # one of two gold passages is found
    bare = played(RIGHT)
    assert bare.value == 1.0


def test_a_repeated_search_loses() -> None:
    one = played(FIRST, FIRST, RIGHT)
    first, second, _ = action_rewards(one)[action_rewards(one) != 0]
    assert first > 0
    assert second == pytest.approx(-0.6)  # no gain, and all three passages were shown before


@pytest.mark.parametrize("script", [(FIRST, SECOND), (FIRST, "hm"), ("hm",)])
def test_without_an_answer_the_reward_is_minus_1_and_no_search_pays(script) -> None:
    rewards = action_rewards(played(*script))
    assert (rewards[-1], np.count_nonzero(rewards)) == (-1.0, 1)


def test_text_after_the_answer_loses_it() -> None:
    one = played(FIRST, RIGHT)
    world, _ = scripted_world(TASK, lambda ask: "")
    for completion, value in ((one.completion, one.value), (f"{one.completion} and more", -1.0), (f"{one.completion} \n", one.value)):
        ((found,),) = asyncio.run(SearchSteps().score([Group("g", (one.but(completion=completion),))], {}, world))
        assert found.reward == pytest.approx(value)
    assert one.value != -1.0


def test_a_search_without_passages_and_a_problem_without_evidence() -> None:
    lost = played("<search>zzz</search>", RIGHT)
    assert action_rewards(lost).tolist()[:-1] == [0.0] * (lost.actions - 1)
    bare = lost.but(problem=replace(PROBLEM, meta=Frozen()), reward=None)
    world, _ = scripted_world(TASK, lambda ask: "")
    ((found,),) = asyncio.run(SearchSteps().score([Group("g", (bare,))], {}, world))
    assert found.reward == 1.0


def test_without_its_step_rewards_it_is_ppo_on_the_f1() -> None:
    plain = SearchSteps(scale=0.0, keys=0.0, missing=0.0)
    credited = []
    for reward in (plain, EnvironmentReturn(), SearchSteps()):
        rows = [played(*script, reward=reward) for script in ((FIRST, RIGHT), (FIRST, FIRST, SECOND, "<answer>no</answer>"))]
        rows = [t.but(id=str(i)) for i, t in enumerate(rows)]
        even = {t.id: np.full(t.actions, -1.0) for t in rows}
        signals = {LogProbs(): even, LogProbs(player="reference"): even, Values(player="critic"): {t.id: np.linspace(0, 1, t.actions) for t in rows}}
        credited.append(np.concatenate([c.advantages for (c,) in stepsearch.credit.assign([Group(t.id, (t,)) for t in rows], signals)]))
    assert credited[0].tolist() == credited[1].tolist()
    assert not np.allclose(credited[1], credited[2])


def test_passages_have_no_gradient() -> None:
    one = played(FIRST, SECOND, RIGHT)
    (context,) = one.contexts
    assert 0 < context.actions == context.chosen.sum() < len(context.tokens)
    batch = make_batch([Group("g", (one.but(advantages=np.ones(one.actions)),))])
    found = evaluated(stepsearch.objective["policy"], {LogProb(): batch.behaviour_logprobs.clone()}, batch)
    assert found.gradient[LogProb()].shape == torch.Size([context.actions])


def test_numbers_of_the_paper() -> None:
    assert (stepsearch.reward.scale, stepsearch.reward.keys, stepsearch.reward.missing) == (0.6, 0.618, -1.0)
    assert (stepsearch.environment.limit, stepsearch.environment.tools["search"].top) == (5, 3)
    assert (stepsearch.credit.coefficient, stepsearch.credit.rule.gamma, stepsearch.credit.rule.lam) == (0.001, 1.0, 1.0)
    with pytest.raises(UserError, match="missing"):
        SearchSteps(missing=1.0)
