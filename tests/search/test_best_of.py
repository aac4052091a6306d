"""Best of n: which answer is kept, out of which samples."""

from __future__ import annotations

import asyncio

import pytest

from gradus.papers.bases.best_of_n import best_of_n
from gradus.rollouts.single import Single
from gradus.search.best_of import BestOf, best
from gradus.types import Failed, Key, Problem, Request, UserError
from tests.toy import TOY, group, toy_run, trajectory


def test_the_highest_reward_the_earliest_of_equals():
    assert best(group(0.0, 1.0, 1.0).trajectories).id == "g/1"
    assert best(group(-1.0, Failed("no"), float("nan")).trajectories).id == "g/0"
    assert best([trajectory([1], reward=Failed("no"), name="only")]).id == "only"


def test_each_answer_is_the_best_of_samples_of_its_own():
    world = toy_run(best_of_n).at(0)[1]
    problems = TOY.source.draw([0, 1, 2], None, Key())
    searched = asyncio.run(BestOf(4).run([Request(p, count=2) for p in problems], world))
    every = asyncio.run(Single().run([Request(p, count=8) for p in problems], world))
    for ours, all_ in zip(searched, every, strict=True):
        halves = all_.trajectories[:4], all_.trajectories[4:]
        assert [t.value for t in ours.trajectories] == [max(t.value for t in half) for half in halves]
        assert [t.id for t in ours.trajectories] == [best(half).id for half in halves]


def test_one_problem_one_answer():
    world = toy_run(best_of_n).at(0)[1]
    problem = Problem("p", "toy", text="a", answer="b")
    answer = asyncio.run(BestOf(16).solve(problem, world))
    assert answer.value == max(t.value for t in asyncio.run(Single().run([Request(problem, count=16)], world))[0].trajectories)


def test_of_one_it_is_the_policy():
    world = toy_run(best_of_n).at(0)[1]
    request = [Request(TOY.source.draw([5], None, Key())[0], count=3)]
    ours, plain = (asyncio.run(r.run(request, world))[0] for r in (BestOf(1), Single()))
    assert [t.completion for t in ours.trajectories] == [t.completion for t in plain.trajectories]


def test_a_count_at_least():
    with pytest.raises(UserError, match="count is 0"):
        BestOf(0)
