"""WirelessMathLM: the reward by hand, formulas in several forms, and GRPO without the box."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.wirelessmath_lm import one_box, wirelessmath_lm
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.tasks.maths.channels import channels
from gradus.testing.methods import advantages_of, check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem

CAPACITY = Problem("x", "channels", text="rate B S N", answer="B*log2(1+S/N)", meta=Frozen(category="whole"))


def judged(*completions: str) -> Group:
    world, _ = scripted_world(channels(), lambda ask: "")
    rows = tuple(toy_trajectory([2], name=f"t/{i}").but(problem=CAPACITY, completion=c) for i, c in enumerate(completions))
    ((*found,),) = asyncio.run(wirelessmath_lm.reward.score([Group("g", rows)], {}, world))
    return Group("g", tuple(t.but(reward=j.reward, components=j.components) for t, j in zip(rows, found, strict=True)))


def test_the_reward_by_hand() -> None:
    group = judged("\\boxed{B*ln((N+S)/N)/ln(2)}", "\\boxed{B*log(1+S/N)}", "=B*log2(1+S/N)", "\\boxed{1} \\boxed{B*log2(1+S/N)}", "")
    assert group.rewards.tolist() == pytest.approx([1.1, 0.1, 1.0, 1.0, 0.0])
    assert [t.right for t in group.trajectories] == [True, False, True, True, False]  # a mean of 3.2 / 5 = 0.64
    (row,) = advantages_of(wirelessmath_lm.credit, group)
    assert row[0][0] == pytest.approx((1.1 - 0.64) / (1.172 / 5) ** 0.5)  # squares .2116 .2916 .1296 .1296 .4096 sum to 1.172


def test_exactly_one_box() -> None:
    assert [one_box(t) for t in ("\\boxed{a{b}}", "\\boxed{}\\boxed{}", "\\boxed{a")] == [1.0, 0.0, 0.0]


def test_with_the_verdict_alone_it_is_grpo() -> None:
    base = grpo.but(objective__kl__coefficient=0.001)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (wirelessmath_lm.but(reward=Verified()), base))
    assert torch.equal(one, other)
    assert set(changes(grpo, wirelessmath_lm)) == {"reward", "objective.kl.coefficient"}
    assert dict(wirelessmath_lm.reward.weights) == {"one_box": 0.1}
    check_micro_batches(wirelessmath_lm)
