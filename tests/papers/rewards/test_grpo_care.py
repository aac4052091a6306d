"""GRPO-CARE: bonus and advantages by hand, the answer's tokens, the moving reference, consistency, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.grpo_care import Consistent, ReadsShapes, bonuses, grpo_care
from gradus.rewards.verified import Verified
from gradus.tasks.pictures.shapes import shapes
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, scripted_world, toy_group, toy_run, train_toy, weights_after
from gradus.types import Frozen, Key, Problem, Request, UserError
from gradus.types.players import MovingAverage
from gradus.types.signals import LogProbs


def paid(base, chances, **more):
    terms = {"beta": 0.5, "upper": 0.95, "margin": 0.01, **more}
    return [b + extra for b, extra in zip(base, bonuses(base, chances, **terms), strict=True)]


def credited(rewards):
    return [a[0] for a in advantages_of(grpo_care.credit, toy_group(*rewards))[0]]


def test_bonus_and_advantages_by_hand() -> None:
    """b = 1 1 0 1, mean 0.75: three accurate answers with the mean chance 0.6, threshold 0.59. Rewards 1.5 1.5 0 1: mean 1, deviation sqrt(0.5)."""
    rewards = paid([1, 1, 0, 1], [0.9, 0.6, 0.8, 0.3])
    assert rewards == [1.5, 1.5, 0.0, 1.0]
    assert credited(rewards) == pytest.approx([0.7071, 0.7071, -1.4142, 0.0], abs=5e-5)
    deviation = math.sqrt(0.5)
    assert [(r - 1) / (deviation + 1e-4) for r in rewards] == pytest.approx([0.7070, 0.7070, -1.4140, 0.0], abs=5e-5)  # the released epsilon
    assert credited([1, 1, 0, 1]) == pytest.approx([0.5, 0.5, -1.5, 0.5])


def test_the_clamp_comes_before_the_mean() -> None:
    # 0.99 counts as 0.95: the mean is 0.94, the threshold 0.93, and 0.935 passes; without the clamp the threshold is 0.95
    assert paid([1, 1, 1], [0.99, 0.99, 0.92], margin=0.0) == [1.5, 1.5, 1.0]
    assert paid([1, 1], [0.99, 0.935]) == [1.5, 1.5]
    assert paid([1, 1], [0.99, 0.935], upper=1.0) == [1.5, 1.0]


def test_who_is_accurate() -> None:
    assert paid([0.1, 0.0], [0.9, 0.9]) == [0.1, 0.0]  # not above 0.1
    assert paid([0.2, 0.8, 0.8], [0.9, 0.9, 0.9]) == [0.2, pytest.approx(1.2), pytest.approx(1.2)]  # 0.2 is below the mean
    assert paid([1, 1], [math.nan, 0.4]) == [1.0, 1.5]  # without a recognisable answer there is no bonus
    assert paid([1, 1], [math.nan, math.nan]) == [1.0, 1.0]
    assert bonuses([], [], beta=0.5, upper=0.95, margin=0.01) == []
    equal = paid([1, 0, 1, 0], [0.99, 0.5, 0.97, 0.5])  # all accurate answers get it: only the scale changes
    assert credited(equal) == pytest.approx(credited([1, 0, 1, 0]))


def test_the_chance_reads_the_tokens_after_the_last_mark() -> None:
    world, _ = scripted_world(TOY, lambda ask: "a=b=cd", reward=Verified())
    (group,) = asyncio.run(grpo_care.rollout.run([Request(Problem("p", "toy", text="a", answer="c"), count=1)], world))
    (t,) = group.trajectories
    assert t.completion == "a=b=cd"
    row = np.log(np.array([0.5, 0.5, 0.5, 0.5, 0.8, 0.2, 0.9])[: t.actions])  # c and d, then the end token
    assert t.actions == 7
    part = Consistent()
    assert part.chance(t, row, world) == pytest.approx(math.sqrt(0.8 * 0.2))
    assert part.chance(t.but(completion="abcdef"), row, world) != part.chance(t, row, world)
    assert math.isnan(part.chance(t.but(completion="no mark"), row, world))
    assert math.isnan(part.chance(t.but(completion="a=b="), row, world))
    assert Consistent(mark="b=").chance(t, row, world) == pytest.approx(math.sqrt(0.8 * 0.2))


def test_bonuses_are_paid_from_the_reference() -> None:
    world, _ = scripted_world(TOY, lambda ask: "x=b", reward=Verified())
    (group,) = asyncio.run(grpo_care.rollout.run([Request(Problem("p", "toy", text="a", answer="b"), count=2)], world))
    rows = {t.id: np.log(np.array([0.5, 0.5, p, 0.1])[: t.actions]) for t, p in zip(group.trajectories, (0.9, 0.2), strict=True)}
    ((one, two),) = asyncio.run(Consistent().score([group], {LogProbs(player="reference"): rows}, world))
    assert [one.reward, two.reward] == [1.5, 1.0]
    assert [dict(j.components) for j in (one, two)] == [{"verified": 1.0, "bonus": 0.5}, {"verified": 1.0, "bonus": 0.0}]
    assert world.notes["chance"] == pytest.approx(0.55)


def test_the_reference_moves_after_ten_updates() -> None:
    """After 10 steps ref = 0.995 ref + 0.005 policy for every tensor; before, it is the start."""
    start = toy_run(grpo_care).players["policy"].policy.network.logits.detach().clone()
    nine, ten = (train_toy(grpo_care, steps=n) for n in (9, 10))
    assert torch.equal(nine.players["reference"].policy.network.logits, start)
    policy = ten.players["policy"].policy.network.logits
    assert not torch.equal(policy, start)
    assert_close(ten.players["reference"].policy.network.logits, 0.995 * start + 0.005 * policy)


def test_consistency_of_shapes() -> None:
    def holds(question, completion):
        return ReadsShapes().consistent(Problem("p", "shapes", text=question), completion)

    assert holds("how many red circles ?", "see red circle row 1 column 2 , red circle row 2 column 2 = 2") is True
    assert holds("how many red circles ?", "see red circle row 1 column 2 = 2") is False
    assert holds("how many red circles ?", "see none = 0") is True
    assert holds("what colour is in row 1 column 2 ?", "see red circle row 1 column 2 = blue") is False
    assert holds("what shape is in row 1 column 2 ?", "see red circle row 1 column 2 = circle") is True
    assert holds("where is the red circle ?", "see red circle row 1 column 2 = row 1 column 2") is True
    assert [holds("how many ?", "3"), holds("is there a star ?", "see red star row 1 column 1 = yes"), holds("how many ?", "so = 3")] == [None] * 3
    for p in shapes(3).source.draw(range(40), None, Key(0)):
        assert ReadsShapes().consistent(p, p.meta["solution"]) is True


def test_without_the_bonus_it_is_grpo_without_a_kl_term() -> None:
    base = grpo.but(objective__kl=None, players__reference=None, credit=GroupRelative("sample"), optimizer__clip=5.0)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (grpo_care.but(reward__beta=0.0), base))
    assert torch.equal(one, other)
    check_micro_batches(grpo_care)
    reference = grpo_care.players["reference"].model
    assert reference == MovingAverage("policy", decay=0.995, every=10)
    assert (grpo_care.reward.beta, grpo_care.reward.upper, grpo_care.reward.margin, "kl" in grpo_care.objective) == (0.5, 0.95, 0.01, False)
    assert Frozen(grpo_care.objective).keys() == {"policy"}
    with pytest.raises(UserError, match=r"Consistent\.beta"):
        Consistent(beta=-1.0)
