"""Sotopia-RL: spread, scale and attribution by hand, the rows, who learns in which stage, and the limit GRPO."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import gradus
from gradus.objectives.labelled_scores import LabelledScores
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.rewards.sotopia_rl import JUDGE, LABEL, POLICY, sotopia_rl
from gradus.rewards.reward_model import RewardModel
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import advantages_of, check_same_update, toy_group, toy_trajectory
from gradus.types import Frozen, Problem
from gradus.types.batch import make_batch
from gradus.types.moments import Steps
from gradus.types.signals import Value

STAGES = sotopia_rl.schedule.stages
CASE = Problem("p", "negotiation", text="", meta=Frozen(limit=14, cost=8, ask=16))
PAIRS = [("lamp, limit 14\n16?", "please why"), ("cost 8; 16?", "please offer 8"), ("13?", "offer 8"), ("11?", "offer 3"), ("no; 11?", "deal")]


def test_the_reward_model_learns_the_squared_error():
    """Score 0 and R = .5: (0 - .5)^2 = .25, slope -1 at the last action."""
    term = JUDGE["players.judge.objective"]["scores"]
    assert term == LabelledScores(source="expert")
    made = toy_trajectory([1, 2], reward=0.5).but(source="expert", components=Frozen(recorded=0.5), advantages=np.zeros(2))
    batch = make_batch([toy_group(0).but(trajectories=(made,))])
    score = torch.zeros(2, requires_grad=True)
    loss, _ = term.loss({Value(): score}, batch)
    loss.backward()
    assert loss.item() == pytest.approx(0.25)
    assert score.grad.tolist() == pytest.approx([0.0, -1.0])


def test_a_run_labels_whole_dialogues_and_trains_single_utterances():
    small = {f"schedule__stages__{name}__until": Steps(n) for name, n in (("sft", 1), ("label", 1), ("judge", 1), ("policy", 1))}
    changes = {"label": Frozen({**LABEL, "setting.group": 1}), "judge": Frozen({**JUDGE, "setting.prompts": 2})}
    recipe = sotopia_rl.but(schedule__stages__sft__recipe=sft.but(study=None), **{f"schedule__stages__{name}__changes": c for name, c in changes.items()})
    seen, updates = [], []

    def watch(run, metrics, groups):
        seen.append(groups)
        updates.append(tuple(run.players[n].updates for n in ("policy", "judge") if n in run.players))

    run = gradus.train(
        recipe, "negotiation", model="gradus/policies/tiny/base", setting__prompts=1, setting__group=2, setting__learning_rate=2e-3,
        setting__warmup=0, study=None, on_step=watch, task_options={"skill": "0"}, **small,
    )  # fmt: skip
    label, judge, policy = seen[-3:]
    said = {pair[1] for g in label for t in g.trajectories for pair in t.extra["dialogue"]}
    assert all([pair[1] for pair in t.extra["dialogue"]] == t.completion.split("\n") for g in label for t in g.trajectories)
    assert all("turn" in t.contexts[0].streams for g in label for t in g.trajectories)
    assert {t.completion for g in judge for t in g.trajectories} <= said
    assert {len(g.trajectories) for g in policy} == {2}
    assert all("turn" not in t.contexts[-1].streams and t.problem.messages for g in policy for t in g.trajectories)
    assert updates[-3:] == [(0, 0), (0, 1), (2, 0)]
    assert run.recipe.reward == RewardModel("judge")


def test_without_stages_it_is_grpo():
    plain = sotopia_rl.but(schedule=ConstantSchedule(), players__judge=None, study=grpo.study, setting__group=grpo.setting.group)
    check_same_update(plain, grpo)
    assert (POLICY["update.epochs"], "update.count" in POLICY, STAGES["policy"].changes) == (2, False, POLICY)
    assert (sotopia_rl.setting.group, STAGES["policy"].start, STAGES["policy"].task) == (16, "sft", "made:label")


def test_a_group_of_one_and_equal_scores_teach_nothing():
    for group in (toy_group(0.5, lengths=[1]), toy_group(0.5, 0.5, lengths=[1, 1])):
        assert not any(a for row in advantages_of(sotopia_rl.credit, group)[0] for a in row)
