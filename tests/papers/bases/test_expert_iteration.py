"""Expert iteration: rounds from the current policy, several passes over what is right, its limit, rounds from the start."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.papers.bases.expert_iteration import expert_iteration
from gradus.papers.bases.rft import rft
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.testing.methods import (
    TOY,
    check_different_update,
    check_learns,
    check_same_update,
    loss_and_gradient,
    steps_of,
    toy_group,
    toy_run,
    train_toy,
    trained_trajectories,
)
from gradus.types.players import Player
from gradus.updates.minibatches import Minibatches
from gradus.updates.reset_weights import ResetWeights

RESTARTED = expert_iteration.but(update=ResetWeights(expert_iteration.update), players__start=Player())


def test_loss_and_gradient_by_hand():
    kept, _ = expert_iteration.selection.keep([toy_group(1, 0, 1, 1, lengths=[1, 3, 2, 1])], None)
    loss, slopes, _ = loss_and_gradient(expert_iteration.objective, kept, np.log([1 / 2, 1 / 4, 1 / 8]))
    assert loss == pytest.approx(2 * math.log(2))
    assert slopes == pytest.approx([-1 / 3] * 3)


def test_a_round_is_two_passes_over_its_right_and_distinct_answers():
    moves = []
    run = train_toy(expert_iteration, watch=lambda run, metrics, groups: moves.append((run.players["policy"].updates, groups)))
    for count, groups in moves:
        kept = trained_trajectories(groups)
        assert all(t.right for row in kept for t in row)
        assert sum(map(len, kept)) >= 4
        assert count % 8 == 0
    assert run.players["policy"].updates == 16
    versions = [int(groups[0].trajectories[0].contexts[0].versions[0]) for _, groups in moves]
    assert versions == [0, 8]  # every round is answered by the policy as the round before has left it


def test_a_round_without_a_right_answer_moves_nothing():
    run = train_toy(expert_iteration, task=replace(TOY, verify=lambda problem, completion: 0.0))
    assert torch.equal(run.players["policy"].policy.network.logits, toy_run(expert_iteration).players["policy"].policy.network.logits)


def test_without_its_differences_it_is_rft():
    back = expert_iteration.but(
        rollout=BehaviourPolicy("start"), players__policy=rft.players["policy"], players__start=rft.players["start"], update=Minibatches()
    )
    check_same_update(back, rft)
    check_different_update(expert_iteration, rft)


def test_from_the_start_a_later_round_moves_no_further_than_one_round():
    start = toy_run(RESTARTED).players["policy"].policy.network.logits.detach()
    far, near = (train_toy(r, steps=6).players["policy"].policy.network.logits.detach() for r in (expert_iteration, RESTARTED))
    assert float((near - start).abs().max()) <= 8 * 0.05 + 1e-9  # eight AdamW moves of rate .05
    assert float((far - start).abs().max()) > 8 * 0.05


def test_it_learns():
    check_learns(expert_iteration, steps=30, gain=0.08)


def test_ten_answers_a_problem_at_most_can_be_asked_for():
    few = steps_of(expert_iteration.but(selection__count=1), steps=2)
    assert {len(kept) for _, groups in few for kept in trained_trajectories(groups)} <= {0, 1}
