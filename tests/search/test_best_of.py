"""Best of n: which answer is kept, out of which samples."""

from __future__ import annotations

import asyncio

import pytest

from gradus.papers.bases.best_of_n import best_of_n
from gradus.rollouts.single_turn import SingleTurn
from gradus.search.best_of import BestOf, Majority, best, elected
from gradus.testing.methods import TOY, toy_group, toy_run, toy_trajectory
from gradus.types import Failed, Key, Problem, Request, UserError


def test_the_highest_reward_the_earliest_of_equals():
    assert best(toy_group(0.0, 1.0, 1.0).trajectories).id == "g/1"
    assert best(toy_group(-1.0, Failed("no"), float("nan")).trajectories).id == "g/0"
    assert best([toy_trajectory([1], reward=Failed("no"), name="only")]).id == "only"


def test_each_answer_is_the_best_of_samples_of_its_own():
    world = toy_run(best_of_n).at(0)[1]
    problems = TOY.source.draw([0, 1, 2], None, Key())
    searched = asyncio.run(BestOf(4).run([Request(p, count=2) for p in problems], world))
    every = asyncio.run(SingleTurn().run([Request(p, count=8) for p in problems], world))
    for ours, all_ in zip(searched, every, strict=True):
        halves = all_.trajectories[:4], all_.trajectories[4:]
        assert [t.value for t in ours.trajectories] == [max(t.value for t in half) for half in halves]
        assert [t.id for t in ours.trajectories] == [best(half).id for half in halves]


def test_one_problem_one_answer():
    world = toy_run(best_of_n).at(0)[1]
    problem = Problem("p", "toy", text="a", answer="b")
    answer = asyncio.run(BestOf(16).solve(problem, world))
    assert answer.value == max(t.value for t in asyncio.run(SingleTurn().run([Request(problem, count=16)], world))[0].trajectories)


def test_of_one_it_is_the_policy():
    world = toy_run(best_of_n).at(0)[1]
    request = [Request(TOY.source.draw([5], None, Key())[0], count=3)]
    ours, plain = (asyncio.run(r.run(request, world))[0] for r in (BestOf(1), SingleTurn()))
    assert [t.completion for t in ours.trajectories] == [t.completion for t in plain.trajectories]


def said(*completions):
    return [toy_trajectory([1], name=str(i)).but(completion=text) for i, text in enumerate(completions)]


def test_the_commonest_final_answer_wins_and_its_first_sample_is_kept():
    assert elected(said("1+1=3", "so #### 2", "2", "1+1 = 2.0", "3")).id == "1"  # three for 2, two for 3
    assert elected(said("7", "8", "8", "7")).id == "0"  # of equals the first
    assert elected(said("", "=", "5")).id == "2"  # what says nothing has no vote
    assert elected(said("", "=")).id == "0"


def test_the_majority_is_chosen_without_reward():
    world = toy_run(best_of_n).at(0)[1]
    request = Request(Problem("p", "toy", text="a", answer="b"), count=3)
    ours = asyncio.run(Majority(5).run([request], world))[0].trajectories
    every = asyncio.run(SingleTurn().run([Request(request.problem, count=15)], world))[0].trajectories
    assert [t.id for t in ours] == [elected(every[i : i + 5]).id for i in (0, 5, 10)]
    assert asyncio.run(Majority(5).solve(request.problem, world)).id == ours[0].id


@pytest.mark.parametrize("search", [BestOf, Majority])
def test_a_count_at_least(search):
    with pytest.raises(UserError, match="count is 0"):
        search(0)
