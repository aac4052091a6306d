"""A player that writes problems: values by hand, groups of both roles, which role is trained, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.proposer import HardButSolved, Proposer
from gradus.testing.methods import TOY, check_resumes, scripted_world, train_toy, weights_after
from gradus.types import Key, Request, UserError


def test_the_value_of_a_problem_by_hand():
    assert [HardButSolved().value(count / 8) for count in (8, 4, 1, 0)] == [0.0, 0.5, 0.875, 0.0]


def played(proposer, says):
    """The groups of texts and of answers. `says` has the texts of the proposer; the solver answers a shown "a" rightly in its first sample only."""
    spoken = iter(says)

    def speak(ask):
        if "propose" in ask.request.tags:
            return next(spoken)
        return "b" if policy.text(ask.parent.sequence) == "b" or not spoken_once(ask) else "x"

    seen = set()

    def spoken_once(ask):
        name = (ask.request.tags, ask.request.problem.id)
        if name in seen:
            return True
        seen.add(name)
        return False

    world, policy = scripted_world(TOY, speak, reward=Verified())
    problems = TOY.source.draw([2], None, Key(0))
    groups = asyncio.run(proposer.run([Request(p, count=2) for p in problems], world))
    return groups, asyncio.run(world.aside()), world


def test_texts_and_answers_are_groups_of_their_own():
    (texts,), answers, world = played(Proposer(proposals=3, weight=0.5), ["a", "b", "?"])
    assert [t.reward for t in texts.trajectories] == [0.5, 0.0, 0.0]  # half of the answers to "a" are right, none to "b", and "?" is no problem
    assert [t.components["proposal"] for t in texts.trajectories] == [0.5, 0.0, 0.0]
    assert [t.weight for t in texts.trajectories] == [0.5] * 3
    assert [(len(g.trajectories), g.accuracy) for g in answers] == [(2, 0.5), (2, 0.0)]
    assert all(g.aside and t.weight == 1 and t.trained and t.problem.text in "ab" for g in answers for t in g.trajectories)
    assert world.notes["proposals/valid"] == pytest.approx(2 / 3)
    assert world.notes["proposals/solved"] == 0.25
    names = [t.id for g in (texts, *answers) for t in g.trajectories]
    assert len(set(names)) == len(names)


def test_equal_texts_have_their_own_answers_and_no_text_may_be_valid():
    (texts,), answers, _ = played(Proposer(proposals=2), ["a", "a"])
    assert [t.reward for t in texts.trajectories] == [0.5, 0.5]
    assert len(answers) == 2
    (texts,), answers, _ = played(Proposer(proposals=2), ["?", ""])
    assert ([t.reward for t in texts.trajectories], answers) == ([0.0, 0.0], [])


@pytest.mark.parametrize("role", ["proposer", "solver"])
def test_only_the_named_role_is_trained(role):
    (texts,), answers, _ = played(Proposer(proposals=2, trains=(role,)), ["a", "b"])
    assert {t.trained for t in texts.trajectories} == {role == "proposer"}
    assert {t.trained for g in answers for t in g.trajectories} == {role == "solver"}


def test_both_roles_move_the_weights_and_a_run_resumes():
    recipes = [grpo.but(rollout=Proposer(trains=roles)) for roles in (("proposer", "solver"), ("proposer",), ("solver",))]
    ends = [weights_after(r, steps=3)["policy.logits"] for r in recipes]
    assert not torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])
    check_resumes(recipes[0], steps=3, after=1)
    assert isinstance(Proposer().test, Auto)


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match='give "proposer", "solver", or both'):
        Proposer(trains=("judge",))
    with pytest.raises(UserError, match=r"Proposer\.proposals"):
        Proposer(proposals=0)
    deaf = replace(TOY, proposed=None)
    with pytest.raises(UserError, match="cannot read a problem out of a written text"):
        Proposer().check_task(deaf)
    with pytest.raises(UserError, match="cannot read a problem out of a written text"):
        train_toy(grpo.but(rollout=Proposer()), task=deaf, steps=1)
