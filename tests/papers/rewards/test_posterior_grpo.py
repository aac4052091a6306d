"""Posterior-GRPO: rewards and advantages by hand, the gate, the three answers of a pair set, who learns when, and its limit."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import numpy as np
import pytest

import gradus
from gradus.objectives.ranking import BradleyTerry
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.posterior_grpo import JUDGE, OptimisedAndDegraded, degraded, posterior_grpo, spoilt
from gradus.rewards.combine import Sum
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import (
    TOY,
    advantages_of,
    check_different_update,
    check_same_update,
    loss_and_gradient,
    scripted_world,
    toy_group,
    train_toy,
)
from gradus.types import Failed, Frozen, Group, Key, Request
from gradus.types.moments import Steps
from gradus.types.signals import Value, Values


def rewards_of(reward, *answers):
    """Answers as (verdict, thinking score from 0 to 1, text)."""
    made = tuple(
        t.but(completion=text) for t, (_, _, text) in zip(toy_group(*[0] * len(answers), lengths=[1] * len(answers)).trajectories, answers, strict=True)
    )
    verdicts = {t.completion + t.id: v for t, (v, _, _) in zip(made, answers, strict=True)}
    world, _ = scripted_world(TOY, lambda ask: "b", reward=Verified())
    ids = iter(list(verdicts.values()) * 9)
    world.task = replace(TOY, verify=lambda problem, completion: next(ids))
    world.text = lambda tokens, player: made[0].completion
    signal = {Values(player="judge"): {t.id: np.array([np.log(s / (1 - s))]) for t, (_, s, _) in zip(made, answers, strict=True)}}
    (found,) = asyncio.run(reward.score([Group("g", made)], signal, world))
    return found


def test_rewards_by_hand():
    found = rewards_of(posterior_grpo.reward, (1.0, 0.8, "a=b"), (1.0, 0.2, "a=b"), (0.0, 0.9, "a=b"), (0.0, 0.9, "ab"), (1.0, 0.5, "a=b=c"))
    assert [j.reward for j in found] == pytest.approx([2.8, 2.2, 1.0, 0.0, 1.5])


def test_without_the_gate_a_wrong_answer_earns_by_its_thinking():
    ungated = Frozen({**posterior_grpo.reward.parts, "thinking": RewardModel("judge", chance=True)})
    found = rewards_of(Sum(ungated), (0.0, 0.9, "a=b"))
    assert found[0].reward == pytest.approx(1.9)


def test_a_failed_verdict_stays_a_failure():
    (found,) = rewards_of(posterior_grpo.reward, (Failed("broken"), 0.9, "a=b"))
    assert isinstance(found.reward, Failed)


def test_advantages_by_hand():
    whole, alone = (advantages_of(posterior_grpo.credit, toy_group(*r, lengths=[1] * 4)) for r in ((2.8, 2.2, 1, 1), (2, 2, 1, 1)))
    assert [row[0] for row in whole[0]] == pytest.approx([1.3472, 0.5774, -0.9623, -0.9623], abs=2e-4)
    assert [row[0] for row in alone[0]] == pytest.approx([1, 1, -1, -1], abs=1e-4)


def test_an_all_right_group_is_ranked_by_its_thinking_alone():
    ranked, equal = (advantages_of(posterior_grpo.credit, toy_group(*r, lengths=[1, 1])) for r in ((2.8, 2.2), (2, 2)))
    assert [row[0] for row in ranked[0]] == pytest.approx([1, -1], abs=1e-3)
    assert equal == [[[0], [0]]]
    assert advantages_of(posterior_grpo.credit, toy_group(2.8, lengths=[1])) == [[[0]]]


def test_a_degraded_answer_differs_and_keeps_its_result():
    text = "lanetp anetp=ptena"
    found = {degraded(text, random.Random(i)) for i in range(40)}
    assert found == {"anetp=ptena", "lanetp=ptena", "anetp lanetp=ptena", "anetpl anetp=ptena", "lanetp netpa=ptena"}
    assert {degraded("ab=c", random.Random(i)) for i in range(20)} == {"=c", "ba=c"}
    assert degraded("=ab", random.Random(0)) == "=ba"
    assert spoilt("b") == "bb"


def triples(base, solution):
    world, _ = scripted_world(TOY, lambda ask: base, reward=Verified())
    problem = TOY.source.draw([0], None, Key())[0]
    problem = replace(problem, meta=Frozen({**problem.meta, "solution": solution}))
    (group,) = asyncio.run(OptimisedAndDegraded().run([Request(problem, count=8)], world))
    return [(t.completion, t.value, t.source) for t in group.trajectories]


def test_three_answers_are_three_pairs_and_two_answers_one():
    found = triples("c a", "b a")
    assert sorted((value, text) for text, value, _ in found)[1:] == [(1.0, "c a"), (2.0, "b a")]
    assert {source for _, _, source in found} == {"expert"}
    assert len(found) == 3
    same = triples("b a", "b a")
    assert sorted(value for _, value, _ in same) == [0.0, 2.0]  # z is z+
    term = {"pairs": BradleyTerry()}  # scores 2, 1, 0 of z+, z, z-: -log sigmoid of 1, 1 and 2, mean of the three
    loss, _, _ = loss_and_gradient(term, [toy_group(2, 1, 0, lengths=[1, 1, 1])], [2.0, 1.0, 0.0], want=Value())
    assert loss == pytest.approx((2 * np.log1p(np.exp(-1)) + np.log1p(np.exp(-2))) / 3)


def test_only_the_judge_learns_at_first_and_only_the_policy_afterwards():
    stages = posterior_grpo.schedule.stages
    assert (stages["judge"].changes, stages["policy"].start, stages["policy"].players) == (JUDGE, "first", Frozen(judge="judge.judge"))
    changes = {name.replace(".", "__"): value for name, value in {**JUDGE, "schedule": ConstantSchedule()}.items()}
    first = train_toy(posterior_grpo.but(**changes), steps=3)
    second = train_toy(posterior_grpo.but(schedule=ConstantSchedule()), steps=3)
    assert [[run.players[name].updates for name in ("policy", "judge")] for run in (first, second)] == [[0, 3], [3, 0]]


def test_with_the_outcome_alone_it_is_grpo():
    plain = posterior_grpo.but(reward=Verified(), schedule=ConstantSchedule(), players__judge=None, study=grpo.study)
    check_same_update(plain, grpo)
    check_different_update(posterior_grpo.but(schedule=ConstantSchedule()), grpo)


@pytest.mark.nightly
def test_the_judge_orders_pairs():
    """Pair accuracy of the last steps above .8."""
    recipe = posterior_grpo.but(schedule__stages__judge__until=Steps(50), schedule__stages__policy__until=Steps(1))
    run = gradus.train(recipe, "flawed", task_options={"level": "2", "letters": "1"}, steps=51, setting__prompts=8, setting__learning_rate=3e-4, study=None)
    assert np.mean([row["judge/pair_accuracy"] for row in run.metrics if "judge/pair_accuracy" in row][-10:]) > 0.8
