"""DeepSeek-R1: advantages, KL and the language's share by hand, the reset of the reference, the kept answers, and the order of the stages."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
import torch

from gradus.objectives.kl import kl_estimate
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.guidance.deepseek_r1 import LanguageShare, ReadableAnswers, RenewReference, deepseek_r1, language_share
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.schedules.stages import FIRST
from gradus.testing.methods import advantages_of, check_micro_batches, check_same_update, loss_and_gradient, toy_group, train_toy
from gradus.types import Frozen, Problem
from gradus.types.moments import CopyWeights, Moment
from gradus.types.signals import LogProbs, Signal

REFERENCE: Signal = LogProbs(player="reference")


def test_the_advantages_and_the_kl_by_hand() -> None:
    """Rewards 1, 0, 0, 0: 1.7321 and -0.5774. k3 at ref/pi = 0.6: 0.6 - ln 0.6 - 1 = 0.1108; 0 where they agree, and never below 0."""
    found = [row[0] for row in advantages_of(deepseek_r1.credit, toy_group(1, 0, 0, 0))[0]]
    assert found == pytest.approx([1.7321, -0.5774, -0.5774, -0.5774], abs=1e-4)
    now, ratios = torch.zeros(4, dtype=torch.float64), torch.tensor([0.6, 1.0, 3.0, 0.01], dtype=torch.float64)
    values = kl_estimate(now, ratios.log(), estimator=deepseek_r1.objective["kl"].estimator)
    assert values[:2].tolist() == pytest.approx([0.1108, 0.0], abs=1e-4)
    assert bool((values >= 0).all())


def test_the_wide_clip() -> None:
    """A ratio of 2 or of 0.01 keeps its gradient; a ratio of 12 with A > 0 is cut at 11."""
    group, read = toy_group(1, lengths=[3]), {REFERENCE: {"g/0": [0.0] * 3}}
    term = {"policy": deepseek_r1.objective["policy"]}
    trust = deepseek_r1.objective["policy"].trust
    at = torch.tensor([math.log(2), math.log(0.01), math.log(12)], dtype=torch.float64, requires_grad=True)
    losses, _ = trust.losses(at, torch.ones(3, dtype=torch.float64), None)
    assert losses.tolist() == pytest.approx([-2.0, -0.01, -11.0])
    assert torch.autograd.grad(losses.sum(), at)[0].tolist() == pytest.approx([-2.0, -0.01, 0.0])
    assert loss_and_gradient(term, [group], [0.0] * 3, advantages=[1.0], signals=read)[1] == pytest.approx([-1 / 3] * 3)


def test_the_share_of_the_language() -> None:
    mixed = "a b c d e f g ж з и</think>ж"
    assert LanguageShare().value("what is it", mixed) == pytest.approx(0.7)
    assert LanguageShare().value("что это", mixed) == pytest.approx(0.3)
    assert language_share("q", "1 + 2 = 3</think>3", alphabets={}, end="</think>") == 1.0
    assert language_share("q", "a ж", alphabets={}, end="</think>") == 0.5  # no end: the whole answer counts
    made_up = {"low": "abc", "high": "xyz"}
    assert language_share("ab", "ab xy ba", alphabets=made_up, end="#") == pytest.approx(2 / 3)
    group = toy_group(1)
    group = group.but(trajectories=tuple(t.but(problem=Problem("p", "toy", text="q"), completion="a ж") for t in group.trajectories))
    nowhere: Any = None
    (row,) = asyncio.run(LanguageShare().score([group], {}, nowhere))
    assert (row[0].reward, dict(row[0].components)) == (0.5, {"language": 0.5})
    foreign = group.but(trajectories=tuple(t.but(completion="a b c ж</think>ж ж") for t in group.trajectories))
    ((judged,),) = asyncio.run(LanguageShare().score([foreign], {}, nowhere))
    assert judged.reward == 0.75  # the answer after the thoughts does not count
    assert deepseek_r1.setting.group == 16


def test_the_reference_is_renewed() -> None:
    found = [step for step in range(1300) if RenewReference().at(Moment(step, 1300), deepseek_r1)[1]]
    assert found == [400, 800, 1200]
    assert RenewReference(every=2).at(Moment(2, 9), deepseek_r1)[1] == (CopyWeights("policy", "reference"),)
    kls: list[float] = []
    renewed = deepseek_r1.but(schedule=RenewReference(every=3), reward=Verified(), setting__group=4)
    train_toy(renewed, steps=7, learning_rate=0.3, watch=lambda run, row, groups: kls.append(row["kl"]))
    assert kls[0] == pytest.approx(0, abs=1e-12)
    assert kls[3] == pytest.approx(0, abs=1e-12)
    assert kls[2] > 1e-6


def answered(name: str, *given: tuple[float, str]) -> Any:
    group = toy_group(*[reward for reward, _ in given], key=name)
    made = (t.but(problem=Problem(name, "toy", text="q"), completion=text) for t, (_, text) in zip(group.trajectories, given, strict=True))
    return group.but(trajectories=tuple(made))


def test_right_answers_in_one_language_are_kept() -> None:
    groups = [answered("p", (1, "a b"), (1, "a ж"), (1, "a b"), (0, "c"), (1, "d")), answered("q", (0, "a"), (1, "ж"))]
    assert [(r["problem"].id, r["solution"]) for r in ReadableAnswers().rows(groups)] == [("p", "a b"), ("p", "d")]
    assert [r["solution"] for r in ReadableAnswers(most=1, least=0.5).rows(groups)] == ["a b"]
    assert [r["solution"] for r in ReadableAnswers(least=0.0).rows(groups)] == ["a b", "a ж", "d", "ж"]


def test_the_order_of_the_stages_and_where_they_start() -> None:
    stages = deepseek_r1.schedule.stages
    assert list(stages) == ["cold", "reason", "sample", "tune", "align"]
    assert [stages[name].recipe for name in ("cold", "tune")] == [sft, sft]
    assert (stages["tune"].start, stages["tune"].task, stages["align"].start) == (FIRST, "made:sample", "previous")
    assert isinstance(stages["sample"].makes, ReadableAnswers)
    assert dict(stages["reason"].changes) == {"schedule": RenewReference(400)}


def test_without_stages_and_further_rewards_it_is_grpo() -> None:
    plain = deepseek_r1.but(schedule=ConstantSchedule(), reward=Verified(), setting__group=4)
    check_same_update(plain, grpo.but(objective__kl__coefficient=0.001, setting__group=4))
    check_micro_batches(plain)
    assert dict(deepseek_r1.reward.weights) in ({}, dict.fromkeys(deepseek_r1.reward.parts, 1.0))
    assert Frozen(deepseek_r1.reward.parts).keys() == {"verified", "tags", "language"}
