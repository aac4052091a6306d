"""Critique-GRPO: the shaped weight, the mixed group, the plain prompt of the refinement, and Dr. GRPO at the limit."""

from __future__ import annotations

import asyncio
import math

import pytest

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import ConstantLength, Joint
from gradus.objectives.terms import EntropyBonus
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.dr_grpo import dr_grpo
from gradus.papers.guidance.critique_grpo import FORM, critique_grpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.feedback import Criticised, FirstWrongStep, Told
from gradus.testing.methods import (
    TOY,
    advantages_of,
    check_different_update,
    check_micro_batches,
    check_resumes,
    check_same_update,
    loss_and_gradient,
    readable,
    scripted_world,
    toy_group,
    train_toy,
)
from gradus.types import Key, Request


@pytest.mark.parametrize(("p", "value", "slope"), [(0.1, 0.5, 0.25), (0.9, 0.9, 0.09), (0.01, 1 / 11, 0.0826)])
def test_the_shaped_weight_by_hand(p: float, value: float, slope: float) -> None:
    """f(p) = p / (p + 0.1); its slope by log p is 0.1 p / (p + 0.1)^2: 0.01/0.04, 0.09/1, 0.001/0.0121."""
    (t,) = toy_group(1, lengths=[1]).trajectories
    group = toy_group(1, lengths=[1]).but(trajectories=(t.but(source="expert"),))
    term = {"expert": critique_grpo.objective["expert"]}
    loss, gradient, _ = loss_and_gradient(term, [group], [math.log(p)], advantages=[1])
    assert -loss * 6144 == pytest.approx(value)
    assert -gradient[0] * 6144 == pytest.approx(slope, abs=5e-5)


def played(first, second, feedback=None, rollout=critique_grpo.rollout):
    """A group with the first answers `first`; the refinements are `second`. Returns the group and the prompts of the refinements."""
    left, more, asked = iter(first), iter(second), []

    def speak(ask):
        if "second" not in ask.request.tags:
            return next(left)
        asked.append(readable(ask.parent.sequence))
        return next(more)

    world, _ = scripted_world(TOY, speak, reward=Verified())
    (problem,) = TOY.source.draw([0], None, Key(0))
    used = rollout if feedback is None else rollout.__class__(feedback=feedback, keep=1, second=rollout.second)
    (group,) = asyncio.run(used.run([Request(problem, count=len(first))], world))
    return group, asked


def test_a_right_refinement_in_a_group_of_wrong_answers() -> None:
    group, asked = played(["x"] * 8, ["y", "y", "b", "y", "b", "y", "y", "y"])
    assert group.rewards.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert [t.source for t in group.trajectories] == ["expert"] + ["policy"] * 7
    assert group.trajectories[0].links["first"] == "3/toy/0/2"  # of two right ones, the first
    assert [row[0] for row in advantages_of(critique_grpo.credit, group)[0]] == [0.875] + [-0.125] * 7
    assert asked == ["a\n" + FORM.format(attempt="x", verdict="wrong", answer="b")] * 8


def test_the_refinement_stands_under_the_plain_prompt_whatever_the_critique_said() -> None:
    one, other = (played(["x", "x"], ["cb", "y"], Told(form))[0] for form in (FORM, "{attempt} was {verdict}, so think"))
    for group in (one, other):
        assert readable(group.trajectories[0].contexts[0].sequence) == "acb|"
        assert group.trajectories[0].contexts[0].logprobs is None
    rows = [math.log(0.3)] * sum(t.actions for t in one.trajectories)
    losses = [loss_and_gradient(critique_terms(), [g], rows, advantages=[0.5, -0.5])[:2] for g in (one, other)]
    assert losses[0] == losses[1]


def critique_terms():
    return {name: critique_grpo.objective[name] for name in ("policy", "expert")}


def test_a_wrong_refinement_among_right_answers_is_pushed_down() -> None:
    group, _ = played(["b", "b"], ["y", "z"])
    assert group.rewards.tolist() == [0, 1]  # the first answer was right, and is replaced
    assert advantages_of(critique_grpo.credit, group)[0][0][0] == -0.5
    tokens = [t.actions for t in group.trajectories]
    _, gradient, _ = loss_and_gradient(critique_terms(), [group], [math.log(0.1)] * tokens[0] + [0.0] * tokens[1], advantages=[-0.5, 0.5])
    # 0.5 * 0.25 and -0.5 * ratio 1, over 2 answers of 6144 tokens
    assert gradient == pytest.approx([0.125 / 12288] * tokens[0] + [-0.5 / 12288] * tokens[1])


def test_all_wrong_and_a_group_of_one() -> None:
    group, _ = played(["x", "x"], ["y", "z"])
    assert group.trajectories[0].completion == "y"
    assert advantages_of(critique_grpo.credit, group)[0] == [[0.0] * t.actions for t in group.trajectories]
    alone, _ = played(["x"], ["b"])
    assert (len(alone.trajectories), advantages_of(critique_grpo.credit, alone)[0][0][0]) == (1, 0.0)


def test_the_first_error_as_critique() -> None:
    _, asked = played(["x"], ["b"], Criticised(FirstWrongStep()))
    assert asked == ["a\nattempt: x\nstep 1 is wrong: x\nSolve the problem again."]


def test_without_refinements_it_is_unclipped_dr_grpo() -> None:
    base = dr_grpo.but(
        objective__policy__trust=Unclipped(), objective__policy__average=ConstantLength(6144), objective__entropy=EntropyBonus(0.001), update__count=2
    )
    check_same_update(critique_grpo.but(rollout=Auto()), base)
    check_same_update(critique_grpo.but(rollout__keep=0), base)
    check_different_update(critique_grpo, base)
    check_micro_batches(critique_grpo)
    check_resumes(critique_grpo, steps=2, after=1)


def test_the_papers_numbers() -> None:
    assert set(changes(dr_grpo, critique_grpo)) == {
        "rollout", "objective.policy.trust", "objective.policy.average", "objective.expert", "objective.entropy", "update.count",
    }  # fmt: skip
    assert (critique_grpo.credit, critique_grpo.setting.group, critique_grpo.update.count) == (GroupRelative(scale="none"), 8, 2)
    assert critique_grpo.objective["expert"].average == critique_grpo.objective["policy"].average == Joint(ConstantLength(6144))
    assert (critique_grpo.rollout.of, critique_grpo.rollout.keep, critique_grpo.rollout.place) == ("each", 1, "instead")
    assert isinstance(critique_grpo.rollout.test, Auto)
    seen = []
    train_toy(critique_grpo, steps=1, watch=lambda run, metrics, groups: seen.append(metrics))
    assert seen[0]["second"] == 1.0
