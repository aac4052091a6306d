"""MASA: rewards of predictions by hand, what is imitated, the gate and the cut, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import pytest

from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.masa import MetaPredictions, masa, meta_rewards
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.predictions import Numbers, SelfPrediction
from gradus.testing.methods import TOY, check_micro_batches, check_same_update, scripted_world, steps_of, toy_trajectory
from gradus.types import Key, Request, UserError


def solutions(*rows):
    """(right, length, text) of each solution."""
    return [toy_trajectory([2] * n, reward=float(r)).but(completion=text) for r, n, text in rows]


def test_rewards_by_hand() -> None:
    half = solutions((1, 10, "sum"), (1, 20, "sum"), (0, 5, "x"), (0, 99, "x"))
    r_n, r_d, r_l = meta_rewards(SelfPrediction(6, 15, ("sum", "product")), half, "ask")
    assert r_d == pytest.approx(0.01**0.25) == pytest.approx(0.3162, abs=1e-4)
    assert (r_n, r_l) == (0.5, 1.0)
    assert (r_n + r_d + r_l) / 3 == pytest.approx(0.6054, abs=1e-4)


def test_the_bounds_of_the_length_are_strict_and_of_right_solutions() -> None:
    rows = solutions((1, 10, ""), (1, 20, ""), (0, 50, ""))
    found = [meta_rewards(SelfPrediction(4, n), rows, "")[2] for n in (9, 10, 11, 19, 20, 30)]
    assert found == [0, 0, 1, 1, 0, 0]
    assert meta_rewards(SelfPrediction(1, 10), solutions((1, 10, ""), (0, 20, "")), "")[2] == 0  # one right solution
    assert meta_rewards(SelfPrediction(0, 10), solutions((0, 5, ""), (0, 20, "")), "") == (0, 1.0, 0)  # none is right
    assert meta_rewards(SelfPrediction(None, None), rows, "") == (0, 0, 0)
    assert meta_rewards(None, rows, "") == (0, 0, 0)


def test_notions_by_hand() -> None:
    rows = solutions(*((1, 5, "sum of parts"),) * 2, *((0, 5, "sum"),) * 3)
    assert meta_rewards(SelfPrediction(None, None, ("sum",)), rows, "")[0] == 0  # in 2 right and in 3 wrong solutions
    assert meta_rewards(SelfPrediction(None, None, ("part",)), rows, "")[0] == 1
    assert meta_rewards(SelfPrediction(None, None, ("parts", "sum", "Part")), rows, "")[0] == 0.5  # "parts" and "Part" are one notion
    assert meta_rewards(SelfPrediction(None, None, ("part",)), rows, "its Part")[0] == 0  # it is in the prompt
    named = solutions((1, 5, "by Vieta"), (0, 5, "x"))
    assert meta_rewards(SelfPrediction(None, None, ("Vieta",)), named, "")[0] == 1


def run(part, guess, *, step=3, problems=3):
    asked = []

    def speak(ask):
        asked.append(ask)
        return guess if "meta" in ask.request.tags else "b"

    world, _ = scripted_world(TOY, speak, reward=Verified(), step=step, max_tokens=100)
    world.steps = 10
    requests = [Request(p, count=2) for p in TOY.source.draw(range(problems), None, Key(0))]
    groups = asyncio.run(part.run(requests, world))
    return groups, asyncio.run(world.aside()), asked, world


PART = MetaPredictions(form=Numbers(), ask="?", count=4, limit=9)


def test_predictions_are_an_auxiliary_group_with_their_own_rewards() -> None:
    groups, aside, asked, _ = run(PART, "8 2", step=0)
    assert [len(g.trajectories) for g in groups] == [2, 2, 2]
    metas = [g for g in aside if "/true" not in g.key]
    assert [len(g.trajectories) for g in metas] == [4, 4, 4]
    # "b" answers the first problem alone: pass rates 1, 0, 0; r_d = 1, .01, .01; no length, no notion
    assert [g.trajectories[0].value for g in metas] == pytest.approx([1 / 3, 0.01 / 3, 0.01 / 3])
    assert {a.sampling.limit for a in asked if "meta" in a.request.tags} == {9}
    assert len({t.id for g in (*groups, *aside) for t in g.trajectories}) == 18


def test_the_best_prediction_is_imitated_with_the_true_numbers() -> None:
    _, aside, _, _ = run(MetaPredictions(form=Numbers(), ask="?", count=2, limit=9, notion_least=0.2), "3 9 b", step=0)
    (true,) = (g for g in aside if "/true" in g.key)  # only the first problem has a right solution
    (t,) = true.trajectories
    assert (t.source, t.completion) == ("expert", "8 2 b")  # pass rate 8 of 8, mean length 2, the notion of the prediction
    assert not [g for g in run(MetaPredictions(form=Numbers(), ask="?", count=2, limit=9, clone=False), "3 9 b", step=0)[1] if "/true" in g.key]
    assert not [g for g in run(PART, "3 9", step=0)[1] if "/true" in g.key]  # without a notion r_n is 0


def test_an_imitated_prediction_keeps_its_reasoning() -> None:
    said = '<meta>easy</meta> {"math_notion": ["b"], "pass_rate": 3, "solution_length": 9}'
    _, aside, _, _ = run(MetaPredictions(ask="?", count=2, limit=99), said, step=0)
    (true,) = (g for g in aside if "/true" in g.key)
    assert true.trajectories[0].completion == '<meta>easy</meta> {"math_notion": ["b"], "pass_rate": 8, "solution_length": 2}'


def test_extreme_predictions_skip_a_problem_after_a_fifth_of_the_run() -> None:
    assert PART.skips([SelfPrediction(8)] * 3 + [SelfPrediction(5)])
    assert not PART.skips([SelfPrediction(8)] * 2 + [SelfPrediction(0)] * 2)
    assert not PART.skips([SelfPrediction(8)] * 2 + [None] * 2)
    assert len(run(PART, "8 2", step=1)[0]) == 3  # step 1 of 10
    assert len(run(PART, "8 2", step=2)[0]) == 1  # all would be skipped, the first one stays
    assert len(run(PART, "5 2", step=2)[0]) == 3


def test_solutions_are_cut_at_twice_the_predicted_length() -> None:
    for step, limit in ((0, 100), (5, 14)):
        _, _, asked, _ = run(PART, "5 7", step=step)
        assert {a.sampling.limit for a in asked if "meta" not in a.request.tags} == {limit}
    _, _, asked, _ = run(PART, "none", step=5)
    assert {a.sampling.limit for a in asked if "meta" not in a.request.tags} == {100}


def test_without_predictions_it_is_grpo() -> None:
    loss = {"objective__policy__trust__high": 0.28, "objective__policy__average": TokenMean(), "objective__kl": None}
    check_same_update(masa.but(rollout__count=0), grpo.but(**loss, players__reference=None, update__count=2))
    same = {"rollout", "objective.policy.trust.high", "objective.policy.average", "objective.kl", "objective.imitation", "players.reference", "update.count"}
    assert set(changes(grpo, masa)) == same
    check_micro_batches(masa.but(rollout__count=2))
    small = masa.but(rollout=MetaPredictions(form=Numbers(), count=3, limit=4, gate_after=1.0))
    metrics = steps_of(small, steps=2)[-1][0]
    assert {"meta_reward", "meta_valid", "meta_error", "gated"} <= set(metrics)


def test_wrong_numbers_are_refused() -> None:
    for name, value in (("count", -1), ("base", 1.0), ("agree", 0.0), ("cut", 0.0), ("gate_after", 2.0)):
        with pytest.raises(UserError, match=name):
            MetaPredictions(**{name: value})
