"""ThinkTuning: which answers get feedback, the joined context, both kinds of tokens in the loss, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.thinktuning import FORMS, STREAM, ShapedFeedback, StudentRatio, Taught, thinktuning
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.testing.methods import (
    TOY,
    advantages_of,
    check_bound_acts,
    check_different_update,
    check_micro_batches,
    check_resumes,
    check_same_update,
    loss_and_gradient,
    readable,
    scripted_world,
    toy_group,
)
from gradus.types import Failed, Frozen, Key, Request, UserError


def played(first, feedback, rollout=thinktuning.rollout, *, verify=None, max_tokens=1000):
    left, asked = iter(first), []

    def speak(ask):
        if "teach" not in ask.request.tags:
            return next(left)
        asked.append((readable(ask.parent.sequence), ask.request.player, ask.request.trained))
        return feedback

    world, _ = scripted_world(TOY if verify is None else replace(TOY, verify=verify), speak, reward=Verified(), max_tokens=max_tokens)
    world.players["teacher"] = world.players["policy"]
    (problem,) = TOY.source.draw([0], None, Key(0))
    (group,) = asyncio.run(rollout.run([Request(problem, count=len(first))], world))
    return group, asked, world


def test_half_of_a_hard_group_gets_feedback() -> None:
    group, asked, world = played(["x", "y", "b", "z"], " wrong b")
    assert group.rewards.tolist() == [1, 1, 1, 0]
    assert [t.completion for t in group.trajectories] == ["x wrong b", "y wrong b", "b", "z"]
    assert asked[0][0].startswith("a\nx\n")
    assert asked[0][0][4:] in {form[10:] for form in FORMS}
    assert {(player, trained) for _, player, trained in asked} == {("teacher", False)}
    assert world.notes == {"guided": 0.5, "reflects": 0.0, "guided/right": 1.0}


def test_easy_groups_and_failed_answers_get_none() -> None:
    assert played(["x", "y", "b", "b"], " wrong b")[1] == []  # half are right
    verdicts = iter([Failed("no"), 0.0, 1.0])
    group, asked, _ = played(["x", "y"], " wrong b", verify=lambda *_: next(verdicts))
    assert (len(asked), [t.completion for t in group.trajectories]) == (1, ["x", "y wrong b"])
    assert played(["x"], " b")[1] == []  # half of one, rounded down


def test_feedback_takes_the_place_of_the_end_token() -> None:
    group, _, _ = played(["x", "y"], " wrong b")
    whole, own = (t.contexts[0] for t in group.trajectories)
    assert readable(whole.sequence) == "ax wrong b|"
    assert whole.streams[STREAM].tolist() == [0.0] + [1.0] * 9
    assert (readable(own.sequence), own.streams[STREAM].tolist()) == ("ay|", [0.0, 0.0])
    cut, _, _ = played(["xyz", "y"], "b", max_tokens=2)
    assert readable(cut.trajectories[0].contexts[0].sequence) == "axyb|"  # an answer that was cut off has no end token


def given(rewards, taught, logprobs, advantages):
    """The loss, gradient and metrics of answers of 2 tokens. `taught` has one number per token."""
    group = toy_group(*rewards)
    rows = iter(np.array(taught, np.float32).reshape(len(rewards), 2))
    marked = [t.but(contexts=tuple(replace(c, streams=Frozen({STREAM: next(rows)})) for c in t.contexts)) for t in group.trajectories]
    group = group.but(trajectories=tuple(marked))
    return loss_and_gradient({"policy": thinktuning.objective["policy"]}, [group], logprobs, advantages=advantages)


def test_the_weights_of_the_teachers_tokens_by_hand() -> None:
    """p = 0.01 and 0.9: weights 0.01 / 0.11 and 0.9 / 1 for A = 1, and 0 for A = -1. Divided by 2 answers of 2 tokens."""
    rows = [math.log(0.01), math.log(0.9)] * 2
    _, gradient, _ = given([1, 0], [1, 1, 1, 1], rows, [1, -1])
    assert gradient == pytest.approx([-0.0909 / 4, -0.9 / 4, 0, 0], abs=5e-5)


def test_the_students_tokens_have_the_clipped_ratio_which_is_1_at_the_first_pass() -> None:
    rows = [math.log(0.01), math.log(0.9), math.log(0.3), math.log(0.2)]
    loss, gradient, metrics = given([1, 0], [0, 1, 0, 0], rows, [1, -1])
    assert gradient == pytest.approx([-1 / 4, -0.9 / 4, 1 / 4, 1 / 4])
    assert loss == pytest.approx((-1 + 0.9 * -math.log(0.9) + 1 + 1) / 4)  # -r A with r = 1; -w A log p
    assert metrics["clip_share"] == 0.0
    group, _, _ = played(["x", "y"], " wrong b")
    assert {a for row in advantages_of(thinktuning.credit, group)[0][:1] for a in row} == {1.0}  # the same for student and teacher
    check_bound_acts(thinktuning, updates=4)


def test_reflection_is_counted() -> None:
    assert played(["x wrong", "b", "b", "b"], "")[2].notes["reflects"] == 0.25


def test_without_feedback_it_is_grpo() -> None:
    base = grpo.but(objective__kl=None, players__reference=None, update__count=4)
    check_same_update(thinktuning.but(rollout=Taught(share=0.0)), base)
    eager = thinktuning.but(rollout=Taught(below=1.0))
    check_different_update(eager, base)
    check_micro_batches(eager)
    check_resumes(eager, steps=2, after=1)


def test_the_numbers_and_what_is_refused() -> None:
    assert {"rollout", "objective.policy.ratio", "update.count"} <= set(changes(grpo, thinktuning))
    assert thinktuning.objective["policy"].trust == ShapedFeedback(0.2, 0.2, 0.1)
    assert thinktuning.objective["policy"].ratio == StudentRatio()
    assert isinstance(thinktuning.rollout.test, Auto)
    with pytest.raises(UserError, match=r"Taught\.share"):
        Taught(share=2)
