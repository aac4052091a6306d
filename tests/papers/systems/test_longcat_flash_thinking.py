"""LongCat-Flash-Thinking: the three bounds by hand, the constant divisor, one version per answer, its limit, its pipeline of experts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

import gradus
from gradus.objectives.aggregation import ConstantLength
from gradus.objectives.ratios import TokenRatio
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.longcat_flash_thinking import longcat_flash_thinking as longcat
from gradus.rewards.finished import Finished
from gradus.schedules.stages import Fuse, Stage, Stages
from gradus.testing.methods import check_different_update, check_same_update, loss_and_gradient, toy_trajectory
from gradus.types import Frozen, Group
from gradus.types.moments import Steps
from gradus.types.systems import Streaming

PLAIN = grpo.but(
    objective__kl=None,
    players__reference=None,
    objective__policy__ratio=TokenRatio(against="behaviour"),
    objective__policy__trust=Clip(0.2, 0.28),
    objective__policy__average=ConstantLength(65536),
)
SMALL = {
    "task": "arithmetic", "study": None, "reward": Finished(), "setting__prompts": 2, "setting__group": 4, "setting__learning_rate": 1e-3,
    "setting__warmup": 0, "setting__max_tokens": 8,
}  # fmt: skip


def losses(ratios, advantages):
    """The loss of every token and its gradient with respect to log pi, for float64 ratios."""
    log_ratio = torch.tensor(ratios, dtype=torch.float64).log().requires_grad_()
    found, metrics = longcat.objective["policy"].trust.losses(log_ratio, torch.tensor(advantages, dtype=torch.float64), None)
    found.sum().backward()
    return found.tolist(), log_ratio.grad.tolist(), metrics


def test_negative_answers_have_two_bounds():
    loss, slope, metrics = losses([6.0, 0.7, 2.0, 0.9], [-1.0] * 4)
    assert loss == pytest.approx([5.0, 0.8, 2.0, 0.9])
    assert slope == pytest.approx([0.0, 0.0, 2.0, 0.9])
    assert metrics["ceiling_share"].mean == 0.25
    loss, slope, _ = losses([math.exp(math.log(5.0))], [-2.0])
    assert (loss, slope) == (pytest.approx([10.0]), pytest.approx([10.0]))  # exactly at the bound the gradient stays


def test_the_bound_itself_keeps_its_gradient():
    log_ratio = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    trust = replace(longcat.objective["policy"].trust, ceiling=float(torch.tensor(2.0, dtype=torch.float64).exp()))
    found, _ = trust.losses(log_ratio, torch.tensor([-1.0], dtype=torch.float64), None)
    found.sum().backward()
    assert log_ratio.grad.tolist() == pytest.approx([math.exp(2.0)])  # half of it would be the gradient of a minimum of two equal numbers


def test_positive_answers_have_an_upper_bound_alone():
    loss, slope, _ = losses([0.1, 1.5, 1.2], [1.0] * 3)
    assert loss == pytest.approx([-0.1, -1.28, -1.2])
    assert slope == pytest.approx([-0.1, 0.0, -1.2])


def loss_of(*lengths):
    answers = Group("g", tuple(toy_trajectory([2] * n, name=str(i), logprobs=[-1.0] * n) for i, n in enumerate(lengths)))
    return loss_and_gradient(longcat.objective, [answers], [-1.0] * sum(lengths), advantages=[1.0] * len(lengths))


def test_the_divisor_is_constant():
    short, long = loss_of(10), loss_of(20)
    assert short[0] == pytest.approx(-10 / 65536)
    assert short[0] == pytest.approx(long[0] / 2)
    assert short[1][0] == pytest.approx(long[1][0])  # a token weighs the same in both
    assert loss_of(10, 20)[0] == pytest.approx(-30 / (2 * 65536))  # G T_max


def test_every_answer_has_one_version_which_is_at_most_two_steps_old():
    seen = []

    def watch(run, row, groups):
        for group in groups:
            for trajectory in group.trajectories:
                for context in trajectory.contexts:
                    seen.append((row["step"], context.actions, set(context.versions.tolist())))

    run = gradus.train(longcat.but(objective__policy__average__length=8), steps=6, on_step=watch, **SMALL)
    assert len(seen) == 6 * 2 * 4
    assert all(len(versions) == (actions > 0) for _, actions, versions in seen)
    assert all(0 <= step - version <= 2 for step, _, versions in seen for version in versions)
    assert len(set().union(*(versions for _, _, versions in seen))) > 1
    assert run.recipe.system == Streaming(staleness=2, workers=2)


def test_without_its_differences_it_trains_to_the_weights_of_grpo():
    limit = longcat.but(system=None, objective__policy__trust__ceiling=math.inf)
    check_same_update(limit, PLAIN, steps=3)
    check_different_update(limit.but(objective__policy__average=ConstantLength(10)), PLAIN, steps=3)
    check_same_update(limit.but(system=Streaming(staleness=0)), PLAIN, steps=3)


def test_experts_of_one_start_are_fused_and_train_on():
    own = longcat.but(objective__policy__average__length=8)
    course = Stages(
        Frozen(
            sums=Stage(until=Steps(1), start="first"),
            texts=Stage(until=Steps(1), start="first", task="string_ops"),
            fused=Fuse(("sums", "texts")),
            general=Stage(until=Steps(1), task="arithmetic,string_ops"),
        )
    )
    run = gradus.train(replace(own.but(schedule=course), key="experts", base=None), **SMALL)
    assert [row["stage"] for row in run.metrics if "ended" not in row] == ["sums", "texts", "fused", "general"]
    steps = [row for row in run.metrics if "ended" not in row and row["stage"] != "fused"]
    assert all(row["staleness"] == 0.0 for row in steps)  # every stage has the system of the recipe; a single step has no stale groups
