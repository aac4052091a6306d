"""Per-step DPO: the first pit, the pair from a shared beginning, its gradient, and answers without a pair."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.papers.bases.dpo import dpo
from gradus.papers.guidance.per_step_dpo import PitPairs, first_pit, pair_of, per_step_dpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.selection.filters import BestAndWorst
from gradus.testing.methods import (
    REFERENCE,
    TOY,
    check_micro_batches,
    check_resumes,
    loss_and_gradient,
    readable,
    scripted_context,
    scripted_world,
    toy_group,
    toy_trajectory,
    weights_after,
)
from gradus.types import Failed, Key, Request, UserError
from gradus.types.spans import Separated


@pytest.mark.parametrize(
    ("values", "pit"),
    [
        ([0.6, 0.7, 0.2, 0.0], 1),  # advantages 0.1, -0.5, -0.2: step 2, so step 1 is kept
        ([1.0, 0.8, 0.4, 0.0], 1),  # -0.2, -0.4, -0.4: on the grid of five continuations, -0.4 is the first below the bound
        ([1.0, 0.7, 0.3], 0),  # exactly at the bound, before a lower one
        ([0.4, 0.4, 0.2, 0.0], 1),  # no step reaches the bound: the lowest, and the earlier of two
        ([0.0, 0.2, 0.4], None),  # only rises
        ([0.0, 0.0], None),
    ],
)
def test_the_first_pit(values, pit) -> None:
    assert first_pit(values) == pit


def played(answers, continue_with, *, verify=None, **fields):
    """Answers to "a", whose answer is "b". `continue_with` maps the text before a state to what follows it, one text for each continuation."""
    left, asked = iter(answers), []

    def speak(ask):
        if "value" not in ask.request.tags:
            return next(left)
        before = readable(ask.parent.sequence[: ask.at])
        asked.append(before)
        texts = continue_with[before]
        return texts[asked.count(before) - 1]

    task = TOY if verify is None else replace(TOY, verify=verify)
    world, _ = scripted_world(task, speak, reward=Verified())
    (problem,) = TOY.source.draw([0], None, Key(0))
    (group,) = asyncio.run(PitPairs(marking=Separated(" "), **fields).run([Request(problem, count=len(answers))], world))
    return group, asyncio.run(world.aside()), asked, world


VALUES = {"a": ["b", "b", "b", "x", "x"], "axx ": ["b", "y", "yb", "b", "b"], "axx yy ": ["z"] * 5}


def test_the_pair_begins_before_the_pit() -> None:
    group, (pair,), asked, world = played(["xx yy zz"], VALUES)  # values 0.6, 0.8, 0, and 0 at the end
    assert sorted(set(asked)) == ["a", "axx ", "axx yy "]
    assert len(asked) == 15
    better, worse = pair.trajectories
    assert (better.completion, better.value, worse.value) == ("xx b", 1.0, 0.0)
    assert [readable(t.contexts[0].prefix) for t in (better, worse)] == ["axx ", "axx "]  # the same tokens
    assert [readable(t.contexts[0].tokens[t.contexts[0].chosen]) for t in (better, worse)] == ["b|", "yy zz|"]
    assert (pair.aside, better.trained, worse.trained) == (True, True, True)
    assert [t.trained for t in group.trajectories] == [False]
    assert world.notes["pit"] == 2
    assert (world.notes["pairs"], world.notes["spread"]) == (1.0, pytest.approx((0.24**0.5 + 0.4) / 3))
    kept, dropped = per_step_dpo.selection.keep([group, pair], Key())
    assert [t.id for t in kept[0].trajectories] == [better.id, worse.id]
    assert dropped == [group]


def test_answers_without_a_pair() -> None:
    assert played(["b"], {})[1] == []  # a right answer
    assert played(["x"], {"a": ["x"] * 5})[1] == []  # nothing falls
    assert played(["xx yy"], {"a": ["x"] * 5, "axx ": ["b"] * 5})[1][0].trajectories[0].completion == "xx b"
    assert played(["x"], {}, verify=lambda *_: Failed("no"))[1] == []
    _, others, _, _ = played(["x", "x"], {"a": ["b"] * 10}, count=5)  # answers of one step: the pair begins at the prompt
    assert [readable(t.contexts[0].prefix) for g in others for t in g.trajectories] == ["a"] * 4
    assert len({g.key for g in others}) == 2


def test_the_tokens_before_the_pit_get_no_gradient() -> None:
    """log-ratios: better (2 tokens) -1 + 1, worse (3 tokens) 0: at a difference of 0, the slope of the loss is -beta / 2 and beta / 2 per token."""
    wrong = toy_trajectory([2, 3, 4, 5, 6], name="w")
    (context,) = wrong.contexts
    right = toy_trajectory([5, 6], name="r", reward=1.0, prompt=context.until(3))
    pair = pair_of(wrong, right, 3)
    assert [t.actions for t in pair.trajectories] == [2, 3]
    assert [t.contexts[0].prefix.tolist() for t in pair.trajectories] == [[1, 2, 3], [1, 2, 3]]
    given = {REFERENCE: {t.id: [-1.0] * t.actions for t in pair.trajectories}}
    _, gradient, _ = loss_and_gradient(per_step_dpo.objective, [pair], [-1.0] * 5, signals=given)
    assert gradient == pytest.approx([-0.05] * 2 + [0.05] * 3)


def test_the_rest_keeps_its_rows() -> None:
    wrong = toy_trajectory([2], name="w").but(contexts=(scripted_context("abc", [-1.0, -2.0, -3.0]),))
    rest = pair_of(wrong, toy_trajectory([2], name="r", reward=1.0), 2).trajectories[1].contexts[0]
    assert rest.logprobs.tolist() == [-2.0, -3.0]
    assert rest.versions.tolist() == [0, 0]
    assert np.array_equal(rest.sequence, wrong.contexts[0].sequence)


def test_it_trains_on_pairs_alone() -> None:
    assert set(changes(dpo, per_step_dpo)) == {"rollout", "objective.given"}
    assert per_step_dpo.selection == BestAndWorst()
    assert per_step_dpo.objective["sampled"].beta == 0.1
    assert isinstance(per_step_dpo.rollout.test, Auto)
    start, after = (weights_after(per_step_dpo, steps=n)["policy.logits"] for n in (1, 3))
    assert not (start == after).all()
    check_micro_batches(per_step_dpo)
    check_resumes(per_step_dpo, steps=2, after=1)
    alike = toy_group(0, 0)
    assert per_step_dpo.selection.keep([alike], Key()) == ([], [alike])
    with pytest.raises(UserError, match=r"PitPairs\.bound"):
        PitPairs(bound=0.1)
