"""RLHAIF with ReMax: advantages by hand, the greedy answer, and the limit ReMax."""

from __future__ import annotations

import pytest

from gradus.papers.bases.remax import remax
from gradus.papers.rewards.physics_rlhaif import JUDGE, physics_rlhaif
from gradus.papers.rewards.physics_rlhaif_remax import physics_rlhaif_remax
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import advantages_of, check_different_update, check_same_update, toy_group, train_toy


def group(*rewards):
    """A group whose last answer is the greedy one."""
    made = toy_group(*rewards, lengths=[2] * len(rewards))
    return made.but(trajectories=(*made.trajectories[:-1], made.trajectories[-1].but(trained=False)))


def test_the_score_of_the_greedy_answer_is_the_baseline():
    """R = .7 and .5 against .5: A = .2 at every token, and 0 for the answer that equals the greedy one."""
    first, second, *_ = advantages_of(physics_rlhaif_remax.credit, group(0.7, 0.5, 0.5))[0]
    assert first == pytest.approx([0.2, 0.2])
    assert second == pytest.approx([0.0, 0.0])


def test_a_failed_score_of_the_greedy_answer_leaves_no_advantage():
    """A failed answer is not in the group that credit sees, so the group has no greedy answer."""
    assert advantages_of(physics_rlhaif_remax.credit, toy_group(0.7, 0.3, lengths=[1, 1])) == [[[0.0], [0.0]]]


def test_the_stages_are_those_of_the_recipe_with_a_critic():
    stages = physics_rlhaif_remax.schedule.stages
    assert (stages["sft"], stages["policy"]) == (physics_rlhaif.schedule.stages["sft"], physics_rlhaif.schedule.stages["policy"])
    assert stages["judge"].changes == JUDGE
    changes = {name.replace(".", "__"): value for name, value in {**JUDGE, "schedule": ConstantSchedule()}.items()}
    first = train_toy(physics_rlhaif_remax.but(**changes), steps=3)
    second = train_toy(physics_rlhaif_remax.but(schedule=ConstantSchedule()), steps=3)
    assert [[run.players[name].updates for name in ("policy", "judge")] for run in (first, second)] == [[0, 3], [3, 0]]
    assert "critic" not in physics_rlhaif_remax.players


def test_with_the_verdict_and_without_stages_it_is_remax():
    check_same_update(physics_rlhaif_remax.but(reward=Verified(), schedule=ConstantSchedule(), players__judge=None), remax)
    check_different_update(physics_rlhaif_remax.but(schedule=ConstantSchedule()), remax)
