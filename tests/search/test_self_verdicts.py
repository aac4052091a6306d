"""Verdicts on own answers as weights of a vote: by hand, with one verdict per answer, and without any kept answer."""

from __future__ import annotations

import asyncio

from gradus.rewards.verified import Verified
from gradus.search.best_of import elected
from gradus.search.self_verdicts import SelfVerdicts
from gradus.search.votes import Vote, winner
from gradus.testing.methods import TOY, scripted_world, toy_trajectory
from gradus.types import Problem, Request


def test_a_weighted_vote_by_hand() -> None:
    samples = [toy_trajectory([1], name=str(i)).but(completion=f"={c}") for i, c in enumerate("779")]
    assert winner(samples, [0.2, 0.1, 0.9]).completion == "=9"
    assert elected(samples).completion == "=7"


def test_the_weight_of_a_sample_is_its_share_of_yes() -> None:
    texts: list[str] = []

    def speak(ask):
        if "verdicts" not in ask.request.tags:
            return "=7" if len(texts) < 2 and not texts.append("") else "=9"
        shown = policy.text(ask.parent.sequence)
        texts.append(shown)
        return "=yes" if shown.endswith("9") or texts.count(shown) == 1 else "=no"

    world, policy = scripted_world(TOY, speak, reward=Verified())
    samples = [toy_trajectory([1], name=str(i)).but(completion=f"x={c}") for i, c in enumerate("79")]
    assert asyncio.run(SelfVerdicts(4).weights(samples, world)) == [0.25, 1.0]
    assert set(texts) == {"check a 7", "check a 9"}
    texts.clear()
    (group,) = asyncio.run(Vote(SelfVerdicts(2), count=3).run([Request(Problem("p", "toy", text="a", answer="9"))], world))
    assert group.trajectories[0].completion == "=9"
