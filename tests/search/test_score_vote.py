"""The vote of score vectors: sums by hand, other orders of the responses, the meta model, and samples without scores."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.rewards.verified import Verified
from gradus.search.score_vote import ScoreVote, voted
from gradus.tasks.text.scoring import scores_of, scoring
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Frozen, Key, Request, UserError
from gradus.types.signals import Value

TASK = scoring(2)
PROBLEM = replace(
    TASK.source.draw([0], 2, Key())[0],
    id="p",
    messages=({"role": "user", "content": "zoo? A red B fox owl C tea"},),
    meta=Frozen(query="zoo", responses=("red", "fox owl", "tea"), preferred=1, solution="animals 0 2 0=1 7 1"),
)


def test_votes_by_hand() -> None:
    samples = [[3, 5], [6, 4], [2, 7]]
    assert voted(samples, None, 0.5) == [11, 16]
    assert voted(samples, [0.9, 0.1, 0.8], 2 / 3) == [5, 12]
    assert voted(samples, [0.9, 0.1, 0.8], 0.5) == [5, 12]  # half of three is two
    assert voted(samples, [0.1, 0.9, 0.9], 1 / 3) == [6, 4]  # of equals the earlier one
    assert voted([[3, 5]], [0.0], 0.5) == [3, 5]


def world_of(speak, **players):
    world, policy = scripted_world(TASK, speak, reward=Verified())
    for name in players:
        world.players[name] = world.players["policy"]
    return world, policy


def asked_text(policy, ask):
    return policy.text(ask.parent.sequence)


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_vote_is_in_the_order_of_the_problem(shuffled) -> None:
    """The script scores the response "fox owl" with 9, "red" with 4 and "tea" with 2, wherever they stand."""
    seen = []

    def speak(ask):
        text = asked_text(policy, ask)
        seen.append(text)
        places = {name: text.index(name) for name in ("red", "fox", "tea")}
        return "=" + " ".join({"red": "4", "fox": "9", "tea": "2"}[name] for name in sorted(places, key=places.__getitem__))

    world, policy = world_of(speak)
    (group,) = asyncio.run(ScoreVote(8, meta=None, shuffled=shuffled).run([Request(PROBLEM, 2)], world))
    assert [scores_of(t.completion, 3) for t in group.trajectories] == [(4, 9, 2)] * 2
    assert [t.value for t in group.trajectories] == [1.0, 1.0]
    assert {t.problem.id for t in group.trajectories} == {"p"}
    assert len(seen) == 16
    assert (len(set(seen)) > 3) == shuffled


def test_a_bias_for_a_place_is_averaged_out() -> None:
    """A script that prefers the first place, and the response "fox owl" a little, is wrong in one sample and right in a vote over shuffled samples."""

    def speak(ask):
        text = asked_text(policy, ask)
        ranks = sorted(("red", "fox", "tea"), key=text.index)
        return "=" + " ".join(str([5, 1, 1][i] + 2 * (name == "fox")) for i, name in enumerate(ranks))

    world, policy = world_of(speak)
    one, many, fixed = (
        asyncio.run(ScoreVote(k, meta=None, shuffled=s).run([Request(PROBLEM)], world))[0].trajectories[0].value
        for k, s in ((1, False), (64, True), (64, False))
    )
    assert (one, many, fixed) == (0.0, 1.0, 0.0)


def test_the_meta_model_picks_the_samples() -> None:
    said = iter(["=1 9 1", "=9 1 1", "nothing", "=1 8 1"] * 2)
    world, _ = world_of(lambda ask: next(said), meta=True)

    async def score(contexts, want, player):
        assert (want, player) == (Value(), "meta")
        values = {"1": 0.1, "9": 0.9, "n": 5.0}
        return [np.array([0.0, values[world.text(c.tokens[c.chosen])[1:2] if world.text(c.tokens[c.chosen])[0] == "=" else "n"]]) for c in contexts]

    world.score = score
    (group,) = asyncio.run(ScoreVote(4, keep=1 / 3, shuffled=False).run([Request(PROBLEM)], world))
    assert scores_of(group.trajectories[0].completion, 3) == (9, 1, 1)  # the unreadable sample has no vote, although its value is the largest
    (group,) = asyncio.run(ScoreVote(4, meta=None, shuffled=False).run([Request(PROBLEM)], world))
    assert scores_of(group.trajectories[0].completion, 3) == pytest.approx((11 / 3, 6, 1))


def test_without_a_readable_sample_the_first_one_is_kept() -> None:
    world, _ = world_of(lambda ask: "none")
    (group,) = asyncio.run(ScoreVote(2, meta=None).run([Request(PROBLEM)], world))
    assert (group.trajectories[0].completion, group.trajectories[0].value) == ("none", 0.0)
    with pytest.raises(UserError, match="responses"):
        asyncio.run(ScoreVote(2, meta=None).run([Request(TOY.source.draw([0], None, Key())[0])], world))


def test_each_vote_has_its_own_samples() -> None:
    """Two problems with two votes of two samples: the votes take samples 0 and 1, 2 and 3, and so on, with their own meta values."""
    said = [f"={n} 1 1" for n in range(2, 10)]
    left = iter(said * 2)
    world, _ = world_of(lambda ask: next(left), meta=True)
    requests = [Request(PROBLEM, 2), Request(replace(PROBLEM, id="q"), 2)]
    groups = asyncio.run(ScoreVote(2, meta=None, shuffled=False).run(requests, world))
    assert [[scores_of(t.completion, 3)[0] for t in g.trajectories] for g in groups] == [[2.5, 4.5], [6.5, 8.5]]

    async def score(contexts, want, player):
        return [np.array([float(i % 3)]) for i, _ in enumerate(contexts)]  # 0 1, 2 0, 1 2, 0 1

    world.score = score
    groups = asyncio.run(ScoreVote(2, shuffled=False).run(requests, world))
    assert [[scores_of(t.completion, 3)[0] for t in g.trajectories] for g in groups] == [[3, 4], [7, 9]]
