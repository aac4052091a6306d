"""The numbers of a step, by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from gradus.study.summary import mean, summarise
from gradus.testing.methods import toy_group, toy_trajectory
from gradus.types import NOT_APPLICABLE, Ended, Failed, Frozen, Group, prompt_context


def test_a_step_by_hand():
    prompt = prompt_context([1])
    trajectories = (
        toy_trajectory([2], reward=1.0, name="a", prompt=prompt, logprobs=[-1.0], ended=Ended.STOP),
        toy_trajectory([2, 3, 4], reward=0.0, name="b", prompt=prompt, logprobs=[-2.0, 0.0, -3.0], ended=Ended.LENGTH),
    )
    update = {"kl": 0.5, "loss/policy": -0.25, "grad_norm": 2.0}
    row = summarise(7, [Group("g", trajectories), toy_group(1, 1)], update, {"rollout": 8})
    assert row["step"] == 7
    assert row["reward"] == row["reward/verified"] == row["accuracy"] == 0.75  # 1, 0, 1, 1
    assert row["length"] == 2.0  # 1, 3, 2, 2
    # mean of -log p over all 8 actions: 1 + 2 + 0 + 3 and four zeros
    assert row["entropy"] == 0.75
    assert row["truncated"] == 0.25
    assert row["informative"] == 0.5  # the first group's rewards differ, the second's do not
    assert (row["failed"], row["kl"], row["clip_share"]) == (0, 0.5, None)
    assert (row["loss/policy"], row["grad_norm"], row["tokens/rollout"]) == (-0.25, 2.0, 8)
    assert list(row).count("kl") == 1
    json.dumps(row, allow_nan=False)


def test_the_exact_entropy_takes_the_place_of_the_estimate():
    assert summarise(0, [toy_group(1, 0)], {"entropy": 1.25}, {})["entropy"] == 1.25


def test_failures_are_counted_and_enter_no_mean():
    row = summarise(0, [toy_group(1, Failed("late")), toy_group(Failed("late"), Failed("odd"))], {}, {})
    assert (row["reward"], row["accuracy"], row["failed"]) == (1.0, 1.0, 3)
    assert row["informative"] == 0.0
    row = summarise(0, [toy_group(Failed("late"))], {}, {})
    assert (row["reward"], row["accuracy"]) == (None, None)


def test_a_component_is_averaged_where_it_applies():
    (made,) = [toy_group(1, 2, 3)]
    values = (Frozen(format=1.0), Frozen(format=NOT_APPLICABLE), Frozen(format=Failed("raised"), style=4.0))
    made = made.but(trajectories=tuple(t.but(components=c) for t, c in zip(made.trajectories, values, strict=True)))
    row = summarise(0, [made], {}, {})
    assert (row["reward"], row["reward/format"], row["reward/style"]) == (2.0, 1.0, 4.0)


def test_actions_without_log_probabilities_have_no_entropy():
    made = toy_group(1)
    (t,) = made.trajectories
    silent = made.but(trajectories=(t.but(contexts=(replace(t.contexts[0], logprobs=None),)),))
    assert summarise(0, [silent], {}, {})["entropy"] is None


def test_without_groups_there_are_no_numbers():
    row = summarise(3, [], {}, {})
    assert {name: value for name, value in row.items() if value is not None} == {"step": 3, "rollouts": 0, "failed": 0}


def test_means():
    assert mean([]) is None
    assert mean(np.array([1.0, 2.0])) == 1.5
    assert math.isclose(mean([0.1] * 3), 0.1)
    assert type(mean([1])) is float
    assert mean([0.5]) == pytest.approx(0.5)


def test_what_was_sampled_for_a_value_only_is_not_counted():
    made = toy_group(1, 0, lengths=[1, 9])
    probed = made.but(trajectories=(made.trajectories[0], made.trajectories[1].but(trained=False)))
    row = summarise(0, [probed], {}, {})
    assert (row["reward"], row["length"], row["informative"]) == (1.0, 1.0, 0.0)


def test_a_given_answer_is_not_counted_among_those_of_the_policy():
    made = toy_group(0, 0, 1, lengths=[1, 1, 9])
    given = made.trajectories[2].but(source="expert", ended=Ended.LENGTH)
    row = summarise(0, [made.but(trajectories=(*made.trajectories[:2], given))], {}, {})
    assert (row["reward"], row["accuracy"], row["length"], row["truncated"]) == (0.0, 0.0, 1.0, 0.0)
    assert row["informative"] == 1.0  # it is compared with them all the same
    row = summarise(0, [made.but(trajectories=(given,))], {}, {})  # where all are given they are what there is to tell
    assert (row["reward"], row["length"]) == (1.0, 9.0)


def test_auxiliary_groups_have_numbers_of_their_own():
    main, beside = toy_group(1, 0, lengths=[1, 3]), toy_group(0, 0, 0, lengths=[7, 7, 10]).but(key="q", aside=True)
    row = summarise(0, [main, beside], {}, {})
    alone = summarise(0, [main], {}, {})
    own = {name: value for name, value in row.items() if name.startswith("aside/")}
    assert own == {"aside/groups": 1, "aside/reward": 0.0, "aside/accuracy": 0.0, "aside/length": 8.0, "aside/failed": 0}
    assert {name: value for name, value in row.items() if name not in own} == {**alone, "rollouts": 5}


def test_auxiliary_groups_that_are_not_trained_count_in_their_own_numbers():
    main, beside = toy_group(1, 0), toy_group(1, 1, 0.0, 0.5).but(key="q", aside=True)
    beside = beside.but(trajectories=tuple(t.but(trained=False) for t in beside.trajectories))
    row = summarise(0, [main, beside], {}, {})
    assert (row["reward"], row["aside/reward"], row["aside/groups"]) == (0.5, 0.625, 1)
    some = beside.but(trajectories=(beside.trajectories[2].but(trained=True), *beside.trajectories[:2]))
    assert summarise(0, [main, some], {}, {})["aside/reward"] == 0.0  # one is trained: only it counts
