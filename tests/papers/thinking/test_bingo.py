"""Bingo: the reward and the factor by hand, the counts of answers and of replies, and PPO at the limit."""

from __future__ import annotations

import asyncio
import math

import pytest

from gradus.papers.bases.ppo import ppo
from gradus.papers.thinking.bingo import SignificantLength, Unrepeated, WithFiller, bingo, slope_of
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.testing.methods import TOY, check_same_update, readable, scripted_world, steps_of, toy_group, toy_trajectory
from gradus.types import Frozen, Key, Request, UserError
from tests.rewards.judged import score, trajectory

PART = SignificantLength()
FREE = {"reward__right": 0.0, "reward__wrong": 0.0, "reward__offset": 0.0, "reward__first": 0.0}


def counted(*rows):
    """(reward, filler / reference, significant / reference) of each answer."""
    group = toy_group(*(r for r, _, _ in rows))
    links = (Frozen(filler=10 * n, significant=10 * s, filler_reference=10, significant_reference=10) for _, n, s in rows)
    return group.but(trajectories=tuple(t.but(links=link) for t, link in zip(group.trajectories, links, strict=True)))


def test_the_reward_by_hand() -> None:
    # c is cos 0 = 1, cos 1 = .5403, cos(pi/2) = 0
    assert PART.values(counted((1, 0, 1), (1, 1, 1), (1, 2, 1)), PART.first).tolist() == pytest.approx([6, 3.7015, 1], abs=1e-4)
    # wrong, at the reference: 2 (.5403 - 1) + 3.1831 - 5 = -2.7363; with k = -.5: -.9194 - .5 - 5 = -6.4194
    assert PART.values(counted((0, 1, 1)), PART.first).tolist() == pytest.approx([-2.7363], abs=1e-4)
    assert PART.values(counted((0, 1, 1)), -0.5).tolist() == pytest.approx([-6.4194], abs=1e-4)
    assert PART.values(counted((0, 0, 99)), PART.first).tolist() == [0]  # a wrong answer gets at most 0


def test_every_right_answer_outranks_every_wrong_one() -> None:
    for k in (PART.first, 0.0, -2 * PART.first):
        right = PART.values(counted(*((1, n, s) for n in (0, 0.5, 1, 9) for s in (0, 1, 9))), k)
        wrong = PART.values(counted(*((0, n, s) for n in (0, 0.5, 1, 9) for s in (0, 1, 9))), k)
        assert right.min() >= 1 > 0 >= wrong.max()


def factors(series, part):
    state, found = part.start(), []
    for accuracy in series:
        state = part.after(accuracy, state)
        found.append(state["k"])
    return found


def test_the_factor_by_hand() -> None:
    part = SignificantLength(start_step=4, period=3)
    first = 10 / math.pi
    # steps 1 to 3: the first factor; step 4: the first slope .1 is scaled to 10/pi; the same slope keeps the factor
    assert factors([0, 0.1, 0.2, 0.3, 0.4], part) == pytest.approx([first] * 5)
    # flat from step 5 on: slopes .1, .05, 0, 0: scaled 3.18, 1.59, 0, 0; below 2.5 the factor falls by .5 per step
    assert factors([0, 0.1, 0.2, 0.3, 0.3, 0.3, 0.3], part)[3:] == pytest.approx([first, -0.5, -1, -1.5])
    # a steep step resets the counter, so k is not monotone: slope .2 gives 6.37
    assert factors([0, 0.1, 0.2, 0.3, 0.3, 0.5, 0.7, 0.7, 0.7], part)[4:] == pytest.approx([-0.5, first, 2 * first, first, -0.5])
    long = factors([0, 0.1, 0.2, 0.3] + [0.3] * 30, part)
    assert min(long) == long[-1] == -20 / math.pi
    falling = factors([0.3, 0.2, 0.1, 0.0, 0.0], part)  # a first slope below 0 has the size 10/pi, but is not steep
    assert falling[3:] == [-0.5, -1]
    assert factors([0.5] * 5, part)[3:] == [-0.5, -1]  # a first slope of 0
    assert (slope_of([1, 1, 1]), slope_of([0.0, 0.5, 1.0]), slope_of([0, 0, 3, 3])) == (0, 0.5, 1.2)


def test_the_factor_changes_only_from_step_fifty_on() -> None:
    found = factors([0.5] * 51, PART)
    assert found[:49] == [PART.first] * 49
    assert found[49:] == [-0.5, -1]


def test_counts_of_answers_and_of_replies() -> None:
    said = {"policy": "abcabcx", "start": "abab"}
    world, policy = scripted_world(TOY, lambda ask: said[ask.request.player], reward=Verified())
    world.players["start"] = world.players["policy"]
    asked = [Request(p, count=2) for p in TOY.source.draw([0], None, Key(0))]
    (group,) = asyncio.run(WithFiller(Unrepeated(2), replies=3).run(asked, world))
    assert [readable(t.contexts[0].tokens) for t in group.trajectories] == ["abcabcx|"] * 2
    # "abc" is repeated by the pairs ab and bc; of the reply "ab" is, and the end token is significant
    assert dict(group.trajectories[0].links) == {"filler": 3, "significant": 5, "filler_reference": 2.0, "significant_reference": 3.0}
    assert sum(policy.batches) == 5
    said["start"] = "xyz"
    (group,) = asyncio.run(WithFiller(Unrepeated(2)).run(asked, world))
    assert group.trajectories[0].links["filler_reference"] == 1.0  # at least 1
    assert WithFiller().test == Auto()


def test_significant_tokens() -> None:
    assert Unrepeated(2).significant(toy_trajectory([2, 3, 2, 3, 4])).tolist() == [True, True, False, False, True]


def test_answers_without_counts_keep_the_verdict() -> None:
    part = SignificantLength()

    class Stateless:
        needs = ()

        async def score(self, groups, signals, world):
            return (await part.score(groups, signals, world, part.start()))[0]

    (row,) = score(Stateless(), [trajectory("yes"), trajectory("no")], verify=lambda p, c: float(c == "yes"))
    assert [j.reward for j in row] == [1.0, 0.0]


def test_without_weights_it_is_ppo() -> None:
    check_same_update(bingo.but(**FREE), ppo)
    assert set(changes(ppo, bingo)) == {"rollout", "reward", "players.start"}
    metrics = steps_of(bingo, steps=2)[-1][0]
    assert {"reward/filler", "reward/significant", "reward/factor"} <= set(metrics)


def test_wrong_numbers_are_refused() -> None:
    for make, text in ((lambda: Unrepeated(0), "n is 0"), (lambda: WithFiller(replies=0), "replies"), (lambda: SignificantLength(period=1), "period")):
        with pytest.raises(UserError, match=text):
            make()
