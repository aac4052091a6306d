"""RLAD: the value of a hint, rejected hints, answers without a hint, the imitated hint, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.rlad import ASK, Hinted, HintedOnly, reveals, rlad
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
    toy_group,
)
from gradus.types import Frozen, Key, Problem, Request, UserError


def played(hints, said, bare=("x", "x"), **fields):
    """One problem. `said` has the answers with a hint, in order."""
    left, answers, plain, asked = iter(hints), iter(said), iter(bare), []

    def speak(ask):
        asked.append((ask.request.player, readable(ask.parent.sequence)))
        return next(left if "hints" in ask.request.tags else answers if "with" in ask.request.tags else plain)

    world, _ = scripted_world(TOY, speak, reward=Verified())
    world.players["abstractor"] = world.players["policy"]
    (problem,) = TOY.source.draw([0], None, Key(0))
    (group,) = asyncio.run(Hinted(hints=len(hints), **fields).run([Request(problem, count=len(bare))], world))
    return group, asyncio.run(world.aside()), asked, world


def test_a_hint_is_paid_by_the_solvers_success() -> None:
    group, others, asked, world = played(["next letter", "count"], ["b", "x", "b", "b", "x", "x", "x", "x"], solutions=4)
    answers, (row,) = [g for g in others if not of_hints(g)], [g for g in others if of_hints(g)]
    assert [t.components["hint"] for t in row.trajectories] == [0.75, 0.0]
    assert [t.value for t in row.trajectories] == [0.75, 0.0]
    assert {t.player for t in row.trajectories} == {"abstractor"}
    assert [g.accuracy for g in answers] == [0.75, 0.0]
    assert all(g.aside for g in others)
    assert (group.accuracy, group.aside) == (0.0, False)
    assert asked[2] == ("abstractor", f"a\n{ASK}")
    assert asked[4] == ("policy", "a\nhint: next letter")
    assert (world.notes["hints/value"], world.notes["hints/rejected"]) == (0.375, 0.0)


def of_hints(group):
    return group.trajectories[0].player == "abstractor"


def test_the_success_without_a_hint_is_subtracted() -> None:
    _, others, _, world = played(["x"], ["b", "x"], bare=("b", "b", "b", "x"), solutions=2)
    (row,) = [g for g in others if of_hints(g)]
    assert ([t.value for t in row.trajectories], row.pool) == ([-0.25], (-0.25,))
    assert world.notes["hints/gain"] == -0.25


def test_a_hint_with_the_answer_is_rejected() -> None:
    _, others, asked, world = played(["it is B", "about"], ["b"], solutions=1)
    assert [prompt for _, prompt in asked][4:] == ["a\nhint: about"]
    (row,) = [g for g in others if of_hints(g)]
    assert [t.components["hint"] for t in row.trajectories] == [0.0, 1.0]
    assert world.notes["hints/rejected"] == 0.5
    assert [reveals(text, Problem("p", "t", text="q", answer=12)) for text in ("so 12", "112", "12 it is")] == [True, False, True]
    assert not reveals("12", Problem("p", "t", text="q"))


def answers(links):
    group = toy_group(1, 0)
    return group.but(trajectories=tuple(t.but(links=links) for t in group.trajectories))


def test_answers_without_a_hint_have_only_the_kl_term() -> None:
    bare, hinted = answers(Frozen()), answers(Frozen(hint="z"))
    found = advantages_of(rlad.credit, bare, hinted)
    assert found == [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [-1.0, -1.0]]]
    given = {REFERENCE: {t.id: [math.log(0.5)] * 2 for t in bare.trajectories}}
    terms = {name: rlad.objective[name] for name in ("policy", "kl")}
    _, gradient, _ = loss_and_gradient(terms, [bare], [math.log(0.25)] * 4, advantages=[0, 0], signals=given)
    # k3 = q/p - 1 - log(q/p), its slope by log p is 1 - q/p = 1 - 2; 0.001 / (2 answers * 2 tokens)
    assert gradient == pytest.approx([-0.001 / 4] * 4)
    _, gradient, _ = loss_and_gradient({"policy": terms["policy"]}, [bare], [0.0] * 4, advantages=[0, 0])
    assert gradient == [0.0] * 4


def test_the_best_hint_is_imitated_if_it_helps() -> None:
    spec = rlad.players["abstractor"]
    good, bad = toy_group(0.25, 0.5, 0.5, -0.25), toy_group(-0.5, 0.0)
    kept, dropped = spec.selection.keep([good, bad], Key())
    assert [[t.id for t in g.trajectories] for g in kept] == [["g/1"]]
    assert dropped == [bad]
    _, gradient, _ = loss_and_gradient(spec.objective, kept, [-1.0, -2.0])
    assert gradient == [-0.5, -0.5]


def test_without_hints_it_is_grpo() -> None:
    base = grpo.but(
        objective__policy__trust=Clip(0.2, 0.28), objective__policy__average=TokenMean(), objective__kl__coefficient=0.001, setting__group=16
    )
    check_same_update(rlad.but(rollout__hints=0, credit=GroupRelative()), base)
    check_different_update(rlad.but(credit=GroupRelative()), base)
    check_micro_batches(rlad)
    check_resumes(rlad, steps=2, after=1)


def test_the_numbers_and_what_is_refused() -> None:
    assert (rlad.rollout.hints, rlad.rollout.solutions, rlad.setting.group) == (4, 8, 16)
    assert rlad.credit == HintedOnly(GroupRelative())
    assert (rlad.objective["policy"].trust, rlad.objective["policy"].average) == (Clip(0.2, 0.28), TokenMean())
    assert rlad.objective["kl"].coefficient == 0.001
    assert isinstance(rlad.rollout.test, Auto)
    assert replace(rlad.rollout, hints=0).hints == 0
    with pytest.raises(UserError, match=r"Hinted\.solutions"):
        Hinted(solutions=0)
