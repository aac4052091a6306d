"""Evaluation while training: which problems, judged by whom, and that it leaves training alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.rewards.verified import Verified
from gradus.study.held_out import HeldOut, accuracy, held_out_requests
from gradus.testing.methods import TOY, ToySource, toy_group, toy_run
from gradus.training.launch import go
from gradus.types import Failed, Group, UserError
from gradus.types.parts import Judgement


@dataclass(frozen=True)
class Short:
    """Right where at most `limit` tokens were said."""

    limit: int
    needs = ()

    async def score(self, groups, signals, world):
        return [[Judgement(float(t.actions <= self.limit)) for t in g.trajectories] for g in groups]


def measured(study, *, step=0, **options):
    run = toy_run(grpo, **options)
    run.step = step
    run.recipe = replace(run.recipe, study=study)
    return asyncio.run(study.measure(run, run.recipe, run.world(run.recipe, "evaluate", study.reward)))


def test_the_problems_are_the_first_held_out_ones_in_every_run():
    assert [(r.problem.id, r.count) for r in held_out_requests(ToySource(), 3, 2, None)] == [("toy/0", 2), ("toy/1", 2), ("toy/2", 2)]
    assert measured(HeldOut(4)) == measured(HeldOut(4))
    assert measured(HeldOut(4), seed=1) != measured(HeldOut(4))  # the problems are the same, the samples are not


def test_it_is_judged_by_the_reward_of_the_study():
    assert measured(HeldOut(8, reward=Short(6)))["held_out/accuracy"] == 1.0  # no answer has more than six tokens
    assert measured(HeldOut(8, reward=Short(0)))["held_out/accuracy"] == 0.0
    assert measured(HeldOut(8)) == measured(HeldOut(8, reward=Verified()))  # without one: the recipe's own


@dataclass(frozen=True)
class Broken:
    """No reward for answers of more than `limit` tokens."""

    limit: int
    needs = ()

    async def score(self, groups, signals, world):
        return [[Judgement(Failed("it broke")) if t.actions > self.limit else Judgement(1.0) for t in g.trajectories] for g in groups]


def test_answers_without_a_reward_are_counted_and_told():
    class View:
        said: list[str] = []

        def message(self, text):
            self.said.append(text)

    run = toy_run(grpo, max_failed=1.0)
    run.view, run.recipe = View(), replace(run.recipe, study=HeldOut(8, reward=Broken(0)))
    found = asyncio.run(run.recipe.study.measure(run, run.recipe, run.world(run.recipe, "evaluate", run.recipe.study.reward)))
    assert found["held_out/accuracy"] == 0.0
    assert found["held_out/reward"] is None
    answers = 8 + 8 * ("held_out/greedy" in found)
    assert found["held_out/failed"] == answers
    assert View.said == [f"{answers} of {answers} held-out answers have no reward, and count as wrong: it broke"]
    assert "held_out/failed" not in measured(HeldOut(8, reward=Broken(6)))


def test_where_no_answer_has_a_reward_the_run_stops_before_more_are_asked_for():
    asked = []

    class Counting(Broken):
        async def score(self, groups, signals, world):
            asked.append(len(groups))
            return await super().score(groups, signals, world)

    with pytest.raises(
        UserError, match=r"none of the 8 held-out answers has a reward; the most common reason: it broke. Fix the cause, then continue with gradus resume RUN"
    ):
        measured(HeldOut(8, reward=Counting(0)))
    assert asked == [8]  # not the greedy ones, too


def test_training_does_not_see_the_reward_of_the_study():
    rows = []
    for reward in (Short(6), Short(0)):
        run = toy_run(grpo, steps=2, eval_every=1)
        run.recipe = replace(run.recipe, study=HeldOut(4, reward=reward))
        rows.append([{k: v for k, v in row.items() if not k.startswith("held_out/")} for row in go(run).metrics])
    assert rows[0] == rows[1]


def test_greedy_answers_are_asked_for_once():
    assert "held_out/greedy" not in measured(HeldOut(2, greedy=False))
    assert measured(HeldOut(8, samples=4))["held_out/greedy"] == measured(HeldOut(8, samples=1))["held_out/greedy"]


def test_accuracy_counts_problems_alike_and_failures_as_wrong():
    # 1/2 of the first group, 1/3 of the second: (1/2 + 1/3) / 2
    assert accuracy([toy_group(1, 0), toy_group(1, Failed("late"), 0)]) == pytest.approx(5 / 12)
    assert accuracy([]) is None
    # verified, but another part of the reward failed: there is no reward, so it is not right
    (made,) = toy_group(1).trajectories
    assert accuracy([Group("g", (made.but(reward=Failed("late")),))]) == 0.0


def test_no_more_problems_than_there_are():
    class Three(ToySource):
        size = 3

    assert len(held_out_requests(Three(), 100, 1, None)) == 3
    assert TOY.held_out.size is None


@pytest.mark.parametrize("wrong", [{"problems": 0}, {"samples": 0}, {"patience": -1}, {"target": -0.1}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        HeldOut(**wrong)


def test_accuracy_by_a_column_is_that_of_its_problems():
    plain, by = measured(HeldOut(8)), measured(HeldOut(8, by=("task", "none")))
    assert by == {**plain, "held_out/task/toy": plain["held_out/accuracy"]}
    level = measured(HeldOut(8, by=("half",)), task=replace(TOY, held_out=Halves()))
    parts = [level["held_out/half/0"], level["held_out/half/1"]]
    assert level["held_out/accuracy"] == pytest.approx(sum(parts) / 2)


@dataclass(frozen=True)
class Halves(ToySource):
    """The toy problems with a column: 0 for even indices, 1 for odd ones."""

    def draw(self, indices, level, key):
        return [replace(p, meta={"half": i % 2}) for i, p in zip(indices, super().draw(indices, level, key), strict=True)]


def test_the_entropy_is_that_of_the_sampled_answers():
    assert "held_out/entropy" not in measured(HeldOut(4))
    found = measured(HeldOut(4, entropy=True))
    assert found["held_out/entropy"] > 0
    assert {name: value for name, value in found.items() if name != "held_out/entropy"} == measured(HeldOut(4))
