"""Multi-objective GRPO: labels and the weighted sum by hand, who learns in which stage, its limit, and that the judge predicts the labels."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

import gradus
from gradus.objectives.labelled_scores import LabelledScores
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.multi_objective_grpo import JUDGE, NAMES, WEIGHTS, RequestScores, labels, multi_objective_grpo
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.study.held_out import held_out_requests
from gradus.testing.methods import advantages_of, check_different_update, check_same_update, toy_group, toy_trajectory, train_toy
from gradus.types import Frozen, Problem
from gradus.types.batch import make_batch
from gradus.types.moments import Steps
from gradus.types.signals import Read, Value

HARMFUL = Problem("p", "safety", (), answer="refuse", meta=Frozen(thoughts=("tea:ok", "acid:harm")))
ALLOWED = Problem("p", "safety", (), answer="answer", meta=Frozen(thoughts=("tea:ok", "map:ok")))


@pytest.mark.parametrize(("weights", "reward"), [(WEIGHTS, 0.76), (Frozen(politeness=0.0, meaning=0.0, action=0.0, safety=1.0), 0.9)])
def test_the_weighted_sum_by_hand(weights, reward):
    """Scores .5, 1, .5 and .9; a score of 1 is a very large output of the head."""
    part = RewardModel("judge", NAMES, weights, chance=True)
    (made,) = toy_group(0, lengths=[1]).trajectories
    signals = {need: {made.id: np.array([v])} for need, v in zip(part.needs, (0.0, 60.0, 0.0, np.log(9.0)), strict=True)}
    assert part.needs[0] == Read(player="judge", reads=Value("politeness"))
    assert part._judged([signals[need][made.id] for need in part.needs]).reward == pytest.approx(reward)


@pytest.mark.parametrize(
    ("problem", "said", "found"),
    [
        (HARMFUL, "tea:ok acid:harm=refuse", (1, 1, 1, 1)),
        (HARMFUL, "tea:ok acid:harm=answer", (1, 1, 0, 0)),
        (HARMFUL, "tea:ok=refuse", (1, 0.5, 0, 1)),  # names no broken rule
        (HARMFUL, "=refuse", (1, 0, 0, 1)),
        (HARMFUL, "tea:ok acid:harm", (0, 1, 0, 1)),  # no decision
        (ALLOWED, "tea:ok map:ok=answer", (1, 1, 1, 1)),
        (ALLOWED, "tea:ok map:theft=refuse", (1, 0.5, 0, 1)),
        (ALLOWED, "tea:ok map:ok cup:ok=answer", (1, 2 / 3, 1, 1)),
        (ALLOWED, "tea=answer", (0, 0, 1, 1)),
    ],
)
def test_labels_by_hand(problem, said, found):
    assert list(labels(problem, said).values()) == pytest.approx(list(found))


def test_the_reward_of_evaluations_weights_the_labels():
    """Politeness 1, meaning 0, action 0 and safety 1: 0.2 + 0.4."""
    found = labels(HARMFUL, "=refuse")
    assert RequestScores()._judged(found).reward == pytest.approx(0.6)
    assert RequestScores(Frozen(safety=1.0))._judged(found).reward == 1.0
    assert dict(RequestScores()._judged(found).components) == found


def test_the_judge_learns_the_squared_error_of_each_score():
    """One answer, output 0 at every head, labels 1, .5, 0 and 1: (1/2)^2 + 0 + (1/2)^2 + (1/2)^2."""
    term = JUDGE["players.judge.objective"]["scores"]
    assert term == LabelledScores(NAMES, "squared_chance")
    made = toy_trajectory([1], reward=0.0).but(components=Frozen(dict(zip(NAMES, (1.0, 0.5, 0.0, 1.0), strict=True))), advantages=np.zeros(1))
    batch = make_batch([toy_group(0).but(trajectories=(made,))])
    heads = {Value(name): torch.zeros(1, requires_grad=True) for name in NAMES}
    loss, _ = term.loss(heads, batch)
    loss.backward()
    assert loss.item() == pytest.approx(0.75)
    assert [float(h.grad) for h in heads.values()] == pytest.approx([-0.25, 0, 0.25, -0.25])  # 2 (1/2 - y) 1/4


def test_only_the_judge_learns_at_first_and_only_the_policy_afterwards():
    stages = multi_objective_grpo.schedule.stages
    assert list(stages) == ["judge", "policy"]
    assert (stages["judge"].changes, stages["policy"].start, stages["policy"].players) == (JUDGE, "first", Frozen(judge="judge.judge"))
    changes = {name.replace(".", "__"): value for name, value in {**JUDGE, "schedule": ConstantSchedule()}.items()}
    first = train_toy(multi_objective_grpo.but(**changes), steps=3)
    second = train_toy(multi_objective_grpo.but(schedule=ConstantSchedule()), steps=3)
    updates = [[run.players[name].updates for name in ("policy", "judge", "reference")] for run in (first, second)]
    assert updates == [[0, 3, 0], [3, 0, 0]]
    assert "critic" not in multi_objective_grpo.players


def test_the_judge_of_the_first_stage_scores_in_the_second():
    small = {f"schedule__stages__{name}__until": Steps(1) for name in stages_of(multi_objective_grpo)}
    run = gradus.train(multi_objective_grpo, task="safety", setting__prompts=2, setting__group=2, study=None, **small)
    first, second = [row for row in run.metrics if "reward" in row]
    assert "judge/score_loss/safety" in first
    assert 0 < second["reward/safety"] < 1  # a sigmoid, not a label


def stages_of(recipe):
    return list(recipe.schedule.stages)


def test_with_a_verifier_and_no_stage_it_is_grpo():
    plain = multi_objective_grpo.but(reward=Verified(), schedule=ConstantSchedule(), players__judge=None, study=grpo.study)
    check_same_update(plain, grpo)
    check_different_update(multi_objective_grpo.but(schedule=ConstantSchedule()), grpo)


def test_a_group_of_one_and_equal_scores_teach_nothing():
    for group in (toy_group(0.76), toy_group(0.76, 0.76)):
        assert not any(advantage for answer in advantages_of(multi_objective_grpo.credit, group)[0] for advantage in answer)


@pytest.mark.nightly
def test_the_judge_predicts_every_label():
    """R2 above .5 for each label, on answers to held-out requests."""
    run = gradus.train(
        multi_objective_grpo.but(schedule__stages__judge__until=Steps(60), schedule__stages__policy__until=Steps(1)), "safety",
        task_options={"level": "5"}, steps=61, setting__prompts=8, setting__group=8, setting__learning_rate=3e-4, setting__eval_every=0, study=None,
    )  # fmt: skip
    world = run.world(run.recipe, "evaluate", RequestScores())
    groups = asyncio.run(run.memory.answer(run.recipe, held_out_requests(run.task.held_out, 64, 4, run.task.level), world))
    part = RewardModel("judge", NAMES, WEIGHTS, chance=True)
    signals = asyncio.run(world.signals(groups, part.needs))
    answers = [t for g in groups for t in g.trajectories]
    for name, need in zip(NAMES, part.needs, strict=True):
        wanted = np.array([labels(t.problem, t.completion)[name] for t in answers])
        found = np.array([1 / (1 + np.exp(-signals[need][t.id][-1])) for t in answers])
        assert 1 - np.square(found - wanted).sum() / np.square(wanted - wanted.mean()).sum() > 0.5, name
