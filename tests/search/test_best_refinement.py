"""The candidates of a draft and its refinements, the mark of the model of steps, and the choice by the model of outcomes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.rewards.verified import Verified
from gradus.search.best_refinement import BestRefinement
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Key, Request, UserError
from tests.rollouts.test_step_repairs import STEP


class Scored:
    """A `World` whose outcome model has the score of `score(completion)`, and whose model of steps dislikes every step that contains z."""

    def __init__(self, world, score):
        self.world, self.of = world, score

    def __getattr__(self, name):
        return getattr(self.world, name)

    async def score(self, contexts, want, player):
        texts = [[self.world.text(c.sequence[c.action_positions[: i + 1]], "policy") for i in range(c.actions)] for c in contexts]
        if player == "orm":
            return [np.full(c.actions, self.of(row[-1])) for c, row in zip(contexts, texts, strict=True)]
        return [np.array([1.0, *(-1.0 if "z" in text else 1.0 for text in row[:-1])]) for row in texts]  # a value is read before its action


def searched(speak, score, ways=("draft", "global", "local"), problems=(0, 1, 2)):
    world, policy = scripted_world(TOY, speak, reward=Verified())
    names = ("orm", "sorm", "global_refiner", "local_refiner")
    world.players.update({n: SimpleNamespace(policy=policy, name=n, updates=0, micro_tokens=1000, most_asks=None) for n in names})
    search = BestRefinement(ways=ways, marking=STEP)
    return search, Scored(world, score), [Request(p) for p in TOY.source.draw(list(problems), None, Key())]


def by_player(ask):
    """The draft is right for problem 0, the global refinement for problem 1, and the local refinement for problem 2."""
    return {"policy": "x b", "global_refiner": "c", "local_refiner": "d"}[ask.request.player] if ask.request.problem.id != "p" else "x"


def test_the_pick_of_an_oracle_is_never_worse_than_the_draft() -> None:
    search, world, requests = searched(by_player, lambda text: 0.0)
    rows = asyncio.run(search.candidates(requests, world))
    right = np.array([[t.right for t in row] for row in rows])
    assert right[:, 0].tolist() == [True, False, False]
    truth = iter([float(t.right) for row in rows for t in row])
    world.of = lambda text: next(truth)
    picks = asyncio.run(search.picks(rows, world))
    assert [bool(right[i, p]) for i, p in enumerate(picks)] == [True, True, False]  # no step is bad, so the third local refinement is the draft
    assert [bool(right[i, p]) >= bool(right[i, 0]) for i, p in enumerate(picks)] == [True] * 3


def test_the_local_refiner_reads_the_draft_with_the_mark() -> None:
    seen = []

    def speak(ask):
        seen.append((ask.request.player, world.text(ask.parent.sequence[: ask.at], "policy"), ask.sampling.temperature))
        return "x z y" if ask.request.player == "policy" else "b"

    search, world, requests = searched(speak, len, problems=(0,))
    (group,) = asyncio.run(search.run(requests, world))
    assert ("global_refiner", "draft: x z y\na", 0.0) in seen
    assert ("local_refiner", "draft: x [BAD] z y\na", 0.0) in seen
    assert group.trajectories[0].completion == "x z y"  # the score is the length
    world.of = lambda text: -len(text)
    assert asyncio.run(search.solve(requests[0].problem, world)).completion == "b"


def test_the_draft_alone_is_the_greedy_answer_and_samples_are_drawn() -> None:
    search, world, requests = searched(lambda ask: f"x{ask.sampling.temperature:g}", lambda text: 0.0, ways=("draft",))
    assert [g.trajectories[0].completion for g in asyncio.run(search.run(requests, world))] == ["x0"] * 3
    search, world, requests = searched(lambda ask: f"x{ask.sampling.temperature:g}", lambda text: 0.0, ways=("draft", "sample", "sample"))
    assert [t.completion for t in asyncio.run(search.candidates(requests, world))[0]] == ["x0", "x1", "x1"]
    with pytest.raises(UserError, match=r"BestRefinement\.ways"):
        BestRefinement(ways=("best",))
    with pytest.raises(UserError, match=r"BestRefinement\.ways"):
        BestRefinement(ways=())
