"""Exact labels of steps: their places and values by hand, the label of the whole answer, and tasks without checked steps."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.rewards.verified import Verified
from gradus.rollouts.checked_steps import CheckedSteps
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Key, Request, UserError
from gradus.types.spans import Separated


class Checker:
    """A step is right if it is the letter b. An answer has two steps. The verdict calls every answer right."""

    def __call__(self, problem, completion):
        return 1.0

    def begins_right(self, problem, text):
        return set(text.split()) <= {"b"}

    def steps(self, problem, completion):
        said = completion.split()
        return sum(word == "b" for word in said) / max(len(said), 2)


def played(*answers, task=replace(TOY, verify=Checker())):
    given = iter(answers)
    world, _ = scripted_world(task, lambda ask: next(given), reward=Verified())
    requests = [Request(TOY.source.draw([0], None, Key())[0], count=len(answers))]
    (group,) = asyncio.run(CheckedSteps(marking=Separated(" ")).run(requests, world))
    return group.trajectories


def test_labels_by_hand():
    both, late, early, short = played("b b", "b c", "c b", "b")
    assert both.stream("span").tolist() == [0, 0, 1, 1]
    assert both.stream("value").tolist() == late.stream("value").tolist() == [1, 1, 1, 1]  # nothing wrong before the second step
    assert early.stream("value").tolist() == [1, 1, 0, 0]
    assert [t.value for t in (both, late, early, short)] == [1, 0, 0, 0]  # the verdict says 1 for all


def test_a_task_without_checked_steps_is_refused():
    with pytest.raises(UserError, match="take a task with checked steps, such as flawed"):
        CheckedSteps().check_task(TOY)
    CheckedSteps().check_task(replace(TOY, verify=Checker()))
