"""Weighted votes: by hand, with equal weights, and several answers per request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from gradus.papers.bases.best_of_n import best_of_n
from gradus.search.best_of import BestOf, Majority, affordable, elected
from gradus.search.votes import Vote, winner
from gradus.testing.methods import toy_run, toy_trajectory
from gradus.types import Problem, Request, UserError


def said(*completions):
    return [toy_trajectory([1], name=str(i)).but(completion=text) for i, text in enumerate(completions)]


def test_the_weights_decide():
    samples = said("=7", "=7", "=9")
    assert winner(samples, [0.2, 0.1, 0.9]).id == "2"  # 0.9 against 0.3
    assert elected(samples).id == "0"  # the majority picks 7
    assert winner(samples, [0.3, 0.7, 0.9]).id == "1"  # 1.0 against 0.9; of the two, the sample with the larger weight


def test_ties_and_samples_without_an_answer():
    assert winner(said("=7", "=9"), [0.5, 0.5]).id == "0"
    assert winner(said("=", "=9", "="), [5.0, 0.1, 5.0]).id == "1"
    assert winner(said("=", ""), [1.0, 2.0]).id == "0"
    assert winner(said("=1", "=2"), [0.0, 0.0]).id == "0"
    assert winner(said("=0.5", "1/2", "=3"), [0.4, 0.4, 0.7]).id == "0"


def test_without_any_weight_the_majority_wins():
    samples = said("=7", "=9", "=9")
    assert winner(samples, [0.0, 0.0, 0.0]).id == "1"
    assert winner(samples, [0.1, 0.0, 0.0]).id == "0"


def test_the_budget_leaves_out_late_samples():
    samples = [toy_trajectory([1] * n, name=str(n)) for n in (3, 4, 5)]
    assert [len(affordable(samples, tokens)) for tokens in (None, 1, 3, 6, 7, 11, 12)] == [3, 1, 1, 1, 2, 2, 3]
    world = toy_run(best_of_n).at(0)[1]
    request = Request(Problem("p", "toy", text="a", answer="b"), count=3)
    whole, one, cut = (asyncio.run(Vote(count=n, tokens=t).run([request], world))[0] for n, t in ((5, 10**6), (5, 1), (1, None)))
    assert [t.completion for t in whole.trajectories] == [t.completion for t in asyncio.run(Majority(5).run([request], world))[0].trajectories]
    assert [t.id.rpartition("/")[2] for t in one.trajectories] == ["0", "5", "10"]
    assert [t.id.rpartition("/")[2] for t in cut.trajectories] == ["0", "1", "2"]
    assert [t.id.rpartition("/")[2] for t in asyncio.run(BestOf(4, tokens=1).run([request], world))[0].trajectories] == ["0", "4", "8"]
    with pytest.raises(UserError, match=r"Majority\.tokens"):
        Majority(tokens=0)


def test_with_equal_weights_it_is_the_majority():
    world = toy_run(best_of_n).at(0)[1]
    request = Request(Problem("p", "toy", text="a", answer="b"), count=3)
    ours, theirs = (asyncio.run(s.run([request], world))[0] for s in (Vote(count=5), Majority(5)))
    assert [t.completion for t in ours.trajectories] == [t.completion for t in theirs.trajectories]


@dataclass(frozen=True)
class LastIsBest:
    async def weights(self, trajectories, world):
        return [float(i) ** 9 for i, _ in enumerate(trajectories)]


def test_each_answer_has_its_own_samples():
    world = toy_run(best_of_n).at(0)[1]
    (group,) = asyncio.run(Vote(LastIsBest(), count=4).run([Request(Problem("p", "toy", text="a", answer="b"), count=2)], world))
    assert [t.id.rpartition("/")[2] for t in group.trajectories] == ["3", "7"]
    assert asyncio.run(Vote(count=2).solve(Problem("p", "toy", text="a", answer="b"), world)).completion
    with pytest.raises(UserError, match=r"Vote\.count"):
        Vote(count=0)
