"""ACE-RL: grades, length and their mean by hand, checklists of single problems, the spread within a group, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.ace_rl import AskedLength, ace_rl, length_of, length_score
from gradus.recipe.core import changes
from gradus.rewards.checklist import Checklist, checklist_of
from gradus.rewards.combine import Sum
from gradus.rewards.verified import Verified
from gradus.tasks.text.instructions import instructions
from gradus.testing.methods import TOY, check_micro_batches, toy_trajectory, weights_after
from gradus.types import NOT_APPLICABLE, Ended, Frozen, Group, Key


@pytest.mark.parametrize(("words", "score"), [(105, 1.0), (90, 1.0), (135, 0.3679), (65, 0.3679), (110, 1.0), (0, np.exp(-3.6))])
def test_length_scores(words, score):
    assert length_score(words, 100) == pytest.approx(score, abs=1e-4)


class Graded:
    """A judge with the points 2, 1, 0, 2 of 2."""

    async def points(self, trajectories, criteria, world):
        return [[2, 1, 0, 2][: len(criteria)] for _ in trajectories]


def answer(text, name="t", ended=None, **meta):
    t = toy_trajectory([2], name=name)
    contexts = t.contexts if ended is None else (*t.contexts[:-1], replace(t.contexts[-1], ended=ended))
    return t.but(completion=text, contexts=contexts, problem=replace(t.problem, meta=Frozen({**t.problem.meta, "checklist": tuple("abcd"), **meta})))


def scored(reward, *rows):
    world = SimpleNamespace(task=TOY, note=lambda name, value: None)
    ((*found,),) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return found


def test_the_reward_by_hand():
    reward = Sum(Frozen(checklist=Checklist(Graded(), grades=2), length=AskedLength()), ace_rl.reward.weights)
    rows = [answer("w " * n, f"t/{n}", length=100) for n in (105, 135)] + [answer("w " * 100, "cut", Ended.LENGTH, length=100), answer("w", "free")]
    found = scored(reward, *rows)
    assert [j.reward for j in found] == pytest.approx([(0.625 + 1) / 2, (0.625 + np.exp(-1)) / 2, 0.625 / 2, 0.625 / 2])
    assert found[0].components == {"checklist": 0.625, "length": 1.0}
    assert found[2].components["length"] == 0.0
    assert found[3].components["length"] is NOT_APPLICABLE


def test_each_instruction_has_its_own_checklist_in_every_epoch():
    task = instructions(2)
    one, other = task.source.draw([0, 1], 2, Key(0))
    (again,) = task.source.draw([0], 2, Key(0))
    assert checklist_of(one, task) == checklist_of(again, task)
    assert checklist_of(one, task) != checklist_of(other, task)
    assert len(checklist_of(one, task)) == 3
    texts = [text for text, _ in checklist_of(one, task)]
    assert all(task.verify.checks[text](one, one.answer) for text in texts)
    assert not all(task.verify.checks[text](one, "") for text in texts)
    assert not task.verify.checks["no such constraint"](one, one.answer)


def test_the_wanted_length_of_an_instruction():
    task = instructions(2, "words,first,last")
    (problem,) = task.source.draw([0], 2, Key(0))
    wanted = len(problem.answer.split())
    assert length_of(problem, task) == wanted
    assert length_of(replace(problem, meta=Frozen({**problem.meta, "length": 7})), task) == 7.0
    (other,) = instructions(2, "first,last,no").source.draw([0], 2, Key(0))
    assert length_of(other, task) is None
    assert length_of(other, TOY) is None


def test_a_checklist_spreads_more_than_one_rounded_grade():
    grades = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 1, 1], [1, 1, 1, 1]])
    shares = grades.mean(axis=1)
    holistic = np.round(1 + 9 * (0.6 + 0.4 * shares)) / 10  # one grade of 1 to 10, which sees single constraints less
    assert shares.std() > holistic.std()


def test_with_the_verdict_it_is_grpo():
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (ace_rl.but(reward=Verified()), grpo.but(objective__kl__coefficient=0.001)))
    assert torch.equal(one, other)
    assert set(changes(grpo, ace_rl)) == {"reward", "objective.kl.coefficient", "players.judge", "requires"}
    check_micro_batches(ace_rl.but(reward=Verified()))
