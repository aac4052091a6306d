"""KDRL: the estimates by hand, whose gradients they have, the schedule of the weight, the masks, and GRPO as the limit."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.aggregation import TokenMean
from gradus.objectives.kl import KL, kl_estimate
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.kdrl import WrongOnly, kdrl
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import check_micro_batches, check_same_update, loss_and_gradient, toy_batch, toy_group, weights_after
from gradus.types import Problem, UserError
from gradus.types.moments import Moment
from gradus.types.signals import LogProbs, Signal

TEACHER: Signal = LogProbs(player="teacher")


def test_the_estimates_by_hand() -> None:
    """pi = 0.5, pi_T = 0.25: l = ln 2 = 0.6931, k2 = 0.2402, k3 = 1/2 - 1 + ln 2 = 0.1931."""
    now, teacher = torch.tensor([0.5, 0.3]).log(), torch.tensor([0.25, 0.3]).log()
    assert kl_estimate(now, teacher, estimator="k2").tolist() == pytest.approx([0.2402, 0.0], abs=1e-4)
    assert kl_estimate(now, teacher, estimator="k3").tolist() == pytest.approx([0.1931, 0.0], abs=1e-4)


def slopes(logits: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(value, logits, retain_graph=True)[0]


def test_k2_has_the_gradient_of_the_reverse_divergence_and_k3_of_the_forward_one() -> None:
    logits = torch.tensor([0.4, -0.3, 1.1, 0.0, -1.2], dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor([-0.5, 0.9, 0.2, 0.6, -0.1], dtype=torch.float64).log_softmax(0)
    p = logits.log_softmax(0)
    reverse, forward = slopes(logits, (p.exp() * (p - teacher)).sum()), slopes(logits, (teacher.exp() * (teacher - p)).sum())
    expected = {name: slopes(logits, (p.detach().exp() * kl_estimate(p, teacher, estimator=name)).sum()) for name in ("k2", "k3")}
    assert_close(expected["k2"], reverse, atol=1e-6, rtol=0)
    assert_close(expected["k3"], forward, atol=1e-6, rtol=0)
    assert (expected["k3"] - reverse).norm() > 0.1 * reverse.norm()
    drawn = torch.multinomial(p.detach().exp(), 20_000, replacement=True, generator=torch.Generator().manual_seed(0))
    mean = slopes(logits, kl_estimate(p, teacher, estimator="k2")[drawn].mean())
    assert (mean - reverse).norm() < 0.05 * reverse.norm()


def test_the_weight_falls_to_its_least_value() -> None:
    found = [kdrl.schedule.at(Moment(step, 1000), kdrl)[0].objective["distillation"].coefficient for step in (0, 40, 80, 200)]
    assert found == pytest.approx([0.005, 0.003, 0.001, 0.001])


def test_the_loss_by_hand() -> None:
    """Two answers of 1 and 3 tokens, A = 1 and -1, l = 0.5 at each: (-1 + 3) / 4 + 0.1 x 0.5^2 / 2; the slopes are -A/4 + 0.1 x 0.5 / 4."""
    group = toy_group(1, 0, lengths=[1, 3])
    read = {TEACHER: {"g/0": [-0.5], "g/1": [-0.5] * 3}}
    objective = kdrl.but(objective__distillation__coefficient=0.1).objective
    loss, gradient, metrics = loss_and_gradient(objective, [group], [0.0] * 4, advantages=[1, -1], signals=read)
    assert loss == pytest.approx(0.5 + 0.0125)
    assert gradient == pytest.approx([-0.25 + 0.0125, *[0.25 + 0.0125] * 3])
    assert metrics["kl"] == pytest.approx(0.125)


def in_two_groups() -> Any:
    mixed, failed = toy_group(1, 0, lengths=[1, 2]), toy_group(0, 0, lengths=[1, 1], key="h")
    other = Problem("q", "toy", text="b")
    return mixed, failed.but(trajectories=tuple(t.but(problem=other) for t in failed.trajectories))


def test_the_masks() -> None:
    """Level answer: all wrong answers. Level group: only the answers of the group without a right one. The divisor stays at all 5 tokens."""
    groups = in_two_groups()
    batch, old = toy_batch(*groups), torch.zeros(5, dtype=torch.float64)
    assert WrongOnly().factors(old, batch).tolist() == [0, 1, 1, 1, 1]
    assert WrongOnly("group").factors(old, batch).tolist() == [0, 0, 0, 1, 1]
    piece, _ = batch.slice([1])  # a micro-batch knows the whole mini-batch
    assert WrongOnly("group").factors(old[:2], piece).tolist() == [0, 0]
    read = {TEACHER: {t.id: [-1.0] * t.actions for g in groups for t in g.trajectories}}
    term = KL(1.0, "k2", player="teacher", average=TokenMean(), weight=WrongOnly("group"))
    loss, gradient, _ = loss_and_gradient({"distillation": term}, groups, [0.0] * 5, signals=read)
    assert loss == pytest.approx(2 * 0.5 / 5)
    assert gradient == pytest.approx([0, 0, 0, 0.2, 0.2])
    with pytest.raises(UserError, match=r"WrongOnly\.level"):
        WrongOnly("token")


def test_without_the_teacher_it_is_grpo() -> None:
    plain = grpo.but(objective__kl=None, players__reference=None, objective__policy__average=TokenMean())
    check_same_update(kdrl.but(objective__distillation=None, players__teacher=None, schedule=ConstantSchedule()), plain)


def test_the_teacher_pulls_and_the_micro_batch_does_not_matter() -> None:
    strong = kdrl.but(schedule=ConstantSchedule(), objective__distillation__coefficient=1.0)
    none = kdrl.but(schedule=ConstantSchedule(), objective__distillation__coefficient=0.0)
    first, second = (weights_after(r, steps=2, rate=0.5)["policy.logits"] for r in (strong, none))
    assert not torch.equal(first, second)
    check_micro_batches(strong.but(objective__distillation__weight=WrongOnly("group")))
    assert math.isclose(kdrl.objective["policy"].trust.high, 0.2)
