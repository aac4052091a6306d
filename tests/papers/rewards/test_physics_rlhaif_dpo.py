"""RLHAIF with DPO: the loss by hand, what each stage reads and learns, and the limit DPO."""

from __future__ import annotations

import math

import pytest

import gradus
from gradus.papers.bases.dpo import dpo
from gradus.papers.rewards.physics_rlhaif_dpo import physics_rlhaif_dpo
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.harvests import AllPairs
from gradus.testing.methods import REFERENCE, check_same_update, loss_and_gradient, toy_group, train_toy
from gradus.types import Frozen
from gradus.types.moments import Steps

STAGES = physics_rlhaif_dpo.schedule.stages


def test_the_loss_of_a_pair_by_hand():
    """h_w - h_l = 2 and beta .1: log(1 + exp(-.2)) = .5981; the slope of h_w is -.1 sigmoid(-.2) = -.0450."""
    term = {"given": physics_rlhaif_dpo.objective["sampled"]}
    group = toy_group(1, 0, lengths=[1, 1])
    signals = {REFERENCE: {t.id: [-1.0] for t in group.trajectories}}
    loss, slopes, _ = loss_and_gradient(term, [group], [0.0, -2.0], signals=signals)
    assert loss == pytest.approx(math.log(1 + math.exp(-0.2)))
    assert slopes == pytest.approx([-0.0450, 0.0450], abs=1e-4)


def test_the_answers_of_the_supervised_policy_are_ranked_and_then_learnt():
    assert list(STAGES) == ["sft", "rank", "policy"]
    assert (STAGES["rank"].makes, STAGES["policy"].task, STAGES["policy"].start) == (AllPairs(), "made:rank", "sft")
    changes = {name.replace(".", "__"): value for name, value in {**STAGES["rank"].changes, "schedule": ConstantSchedule()}.items()}
    assert train_toy(physics_rlhaif_dpo.but(**changes), steps=2).players["policy"].updates == 0
    assert physics_rlhaif_dpo.study.reward == Verified()


def test_a_run_learns_pairs_whose_better_answer_ranks_higher():
    small = {f"schedule__stages__{name}__until": Steps(n) for name, n in (("sft", 3), ("rank", 1), ("policy", 1))}
    seen = []
    recipe = physics_rlhaif_dpo.but(schedule__stages__rank__changes=Frozen({**STAGES["rank"].changes, "setting.group": 2}))
    run = gradus.train(
        recipe, "physics", model="gradus/policies/tiny/base", setting__prompts=8, setting__group=2, setting__learning_rate=1e-3, setting__warmup=0,
        study=None, on_step=lambda run, metrics, groups: seen.append(groups), **small,
    )  # fmt: skip
    rank, learnt = seen[-2], seen[-1]
    values = {(t.problem.question, t.completion): t.value for g in rank for t in g.trajectories}
    pairs = [[(t.problem.question, t.completion) for t in g.trajectories] for g in learnt]
    assert pairs
    assert all(values[better] > values[worse] for better, worse in pairs)
    assert run.players["policy"].updates > 0


def test_without_stages_it_is_dpo():
    check_same_update(physics_rlhaif_dpo.but(schedule=ConstantSchedule()), dpo)
