"""The share of pairs in the right order by hand, ties and groups without a pair, and what a reward model's evaluation says."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.cli.exam import exam_table
from gradus.papers.bases.reward_model import reward_model
from gradus.rewards.finished import Finished
from gradus.study.evaluate import examine, in_words
from gradus.study.pair_accuracy import PairAccuracy, last_rows, pair_accuracy
from gradus.testing.methods import TOY_PAIRS, toy_group, toy_run
from gradus.types import UserError


@pytest.mark.parametrize(
    ("scores", "rewards", "share"),
    [([1, 0], [1, 0], 1.0), ([0, 1], [1, 0], 0.0), ([1, 1], [1, 0], 0.5), ([1, 0], [1, 1], None), ([3, 2, 1], [2, 0, 1], 2 / 3)],
)
def test_pair_accuracy_by_hand(scores, rewards, share):
    assert pair_accuracy(scores, rewards) == (share if share is None else pytest.approx(share))


def test_the_score_is_the_row_of_the_last_action():
    rows = {"g/0": np.array([1.0, 2.0]), "g/1": np.array([3.0])}
    assert last_rows(toy_group(1, 0, lengths=[2, 1]), rows).tolist() == [2, 3]


@pytest.mark.parametrize("task", [None, TOY_PAIRS], ids=["sampled", "given"])
def test_a_value_that_knows_the_reward_orders_all_pairs_and_its_opposite_none(task):
    run = toy_run(reward_model, **({"task": task} if task else {}))
    study = PairAccuracy(problems=8)

    async def measured(sign):
        world = run.world(run.recipe, "evaluate")
        for g, _ in await study.scored(run, run.recipe, world):
            known.update({t.id: np.full(t.actions, t.value) for t in g.trajectories})

        async def told(groups, needs):
            return {signal: {name: sign * row for name, row in known.items()} for signal in needs}

        world.signals = told
        return await study.measure(run, run.recipe, world)

    known = {}
    right, wrong = asyncio.run(measured(1)), asyncio.run(measured(-1))
    assert (right["held_out/accuracy"], wrong["held_out/accuracy"]) == (1, 0)
    assert right["held_out/picked"] > right["held_out/reward"] > wrong["held_out/picked"]


def test_an_untrained_head_without_preference_is_at_one_half():
    run = toy_run(reward_model)
    with torch.no_grad():
        run.players["policy"].policy.network.values.zero_()
    found = asyncio.run(PairAccuracy(problems=4).measure(run, run.recipe, run.world(run.recipe, "evaluate")))
    assert found["held_out/accuracy"] == 0.5


def test_one_answer_makes_no_pair():
    with pytest.raises(UserError, match="samples is 1"):
        PairAccuracy(samples=1)


def judge():
    run = toy_run(reward_model)
    run.recipe = run.recipe.but(study=PairAccuracy())
    return run


def test_the_exam_of_a_judge_has_pairs_and_calibration_and_no_pass_rate():
    run = judge()
    found = asyncio.run(examine(run, problems=6, samples=4, reward=run.recipe.reward))
    assert (found.pass_at, found.majority, found.greedy, found.reward, found.length) == ({}, None, None, None, None)
    assert (found.problems, found.samples, found.judged_by) == (6, 4, in_words(run.recipe.reward))
    pairs, curve = found.tables
    measured = asyncio.run(PairAccuracy(problems=6, samples=4).measure(run, run.recipe, run.world(run.recipe, "evaluate")))
    assert dict(zip(pairs.columns, pairs.rows[0], strict=True)) == {name: measured[f"held_out/{name}"] for name in pairs.columns}
    assert {"accuracy", "calibration_error"} <= set(pairs.columns)
    assert [row[0] for row in curve.rows] == [1, 2, 4]
    said = exam_table(found)
    assert "pass@" not in said
    assert "calibration error" in said
    with pytest.raises(UserError, match=r"trained a judge, which writes no answers, so there is no pass@4; leave --pass-at out"):
        asyncio.run(examine(run, ks=(1, 4), reward=run.recipe.reward))


def test_the_reward_that_is_given_judges_the_answers():
    run = judge()
    own, other = (asyncio.run(examine(run, problems=6, samples=4, reward=reward)) for reward in (run.recipe.reward, Finished()))
    assert other.judged_by == "finished"
    rewards = [exam.tables[0].rows[0][exam.tables[0].columns.index("reward")] for exam in (own, other)]
    assert rewards[0] != rewards[1]
