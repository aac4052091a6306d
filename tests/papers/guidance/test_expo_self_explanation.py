"""ExPO: which questions are explained, the plain prompt of the explanation, the gradient of a group without a right answer, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math

import pytest

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.kl import KL
from gradus.objectives.terms import Imitation
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.expo_self_explanation import FORM, expo_self_explanation
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.testing.methods import (
    REFERENCE,
    TOY,
    advantages_of,
    check_different_update,
    check_micro_batches,
    check_resumes,
    check_same_update,
    loss_and_gradient,
    readable,
    scripted_world,
)
from gradus.types import Key, Request


def played(first, explanation):
    left, asked = iter(first), []

    def speak(ask):
        if "second" not in ask.request.tags:
            return next(left)
        asked.append(readable(ask.parent.sequence))
        return explanation

    world, _ = scripted_world(TOY, speak, reward=Verified())
    (problem,) = TOY.source.draw([0], None, Key(0))
    (group,) = asyncio.run(expo_self_explanation.rollout.run([Request(problem, count=len(first))], world))
    return group, asyncio.run(world.aside()), asked


@pytest.mark.parametrize(("right", "explained"), [(0, 1), (1, 1), (2, 0), (8, 0)])
def test_only_questions_below_a_quarter_are_explained(right: int, explained: int) -> None:
    _, others, asked = played(["b"] * right + ["x"] * (8 - right), "cb")
    assert (len(others), len(asked)) == (explained, explained)


def test_the_answer_is_not_in_the_training_input_before_the_explanation() -> None:
    group, (other,), (asked,) = played(["x"] * 8, "cb")
    assert asked == "a\n" + FORM.format(answer="b")
    (t,) = other.trajectories
    assert readable(t.contexts[0].sequence) == "acb|"
    assert readable(t.contexts[0].prefix) == "a"
    assert (t.source, t.contexts[0].logprobs, other.aside) == ("expert", None, True)
    assert len(group.trajectories) == 8


def test_an_explanation_with_another_answer_is_not_imitated() -> None:
    assert played(["x"] * 8, "cc")[1] == []


def test_in_a_group_without_a_right_answer_the_gradient_is_beta_times_that_of_the_explanation() -> None:
    group, (other,), _ = played(["x", "y"], "cb")
    assert [a for row in advantages_of(expo_self_explanation.credit, group)[0] for a in row] == [0.0] * 4
    own = [t.actions for t in group.trajectories]
    rows = [math.log(0.5)] * sum(own) + [math.log(0.1), math.log(0.2), math.log(0.4)]
    terms = {name: expo_self_explanation.objective[name] for name in ("policy", "explained")}
    loss, gradient, _ = loss_and_gradient(terms, [group, other], rows, advantages=[0, 0, 0])
    assert loss == pytest.approx(-0.1 * math.log(0.008) / 3, abs=1e-7)
    assert gradient == pytest.approx([0.0] * sum(own) + [-0.1 / 3] * 3, abs=1e-7)


def test_two_explanations_count_alike_whatever_their_length() -> None:
    (short,), (long,) = played(["x"], "b")[1], played(["x"], "cccb")[1]
    _, gradient, _ = loss_and_gradient({"e": expo_self_explanation.objective["explained"]}, [short, long], [-1.0] * 7)
    assert gradient == pytest.approx([-0.1 / 4] * 2 + [-0.1 / 10] * 5)


def test_without_explanations_it_is_grpo() -> None:
    base = grpo.but(objective__kl=KL(0.001))
    check_same_update(expo_self_explanation.but(rollout__keep=0), base)
    check_same_update(expo_self_explanation.but(objective__explained=Imitation(average=SequenceMean(), coefficient=0.0)), base)
    check_different_update(expo_self_explanation.but(rollout__at_most=1.0), base)
    check_micro_batches(expo_self_explanation)
    check_resumes(expo_self_explanation, steps=2, after=1)


def test_the_papers_numbers() -> None:
    assert set(changes(grpo, expo_self_explanation)) == {"rollout", "objective.explained", "objective.kl.coefficient"}
    assert expo_self_explanation.objective["kl"] == KL(0.001)
    assert expo_self_explanation.objective["kl"].needs == (REFERENCE,)
    assert isinstance(expo_self_explanation.rollout.test, Auto)
