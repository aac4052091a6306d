"""Cog-Rethinker: which problems reach which stage, the prompts, the imitated copies, the buffer, and DAPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import Imitation
from gradus.papers.bases.dapo import dapo
from gradus.papers.guidance.cog_rethinker import CORRECT, DECOMPOSE, Demonstrated, cog_rethinker
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.feedback import Told
from gradus.selection.filters import Mixed, OwnAnswers
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
)
from gradus.types import Frozen, Key, Request

ROLLOUT = cog_rethinker.rollout.rollout
STATELESS = replace(ROLLOUT, rollout=replace(ROLLOUT.rollout, feedback=Told(DECOMPOSE)))


def stage_of(request):
    return next((name for name in ("decompose", "correct") if name in request.tags), "plain")


def played(*rights):
    """Groups of 2 answers. `rights` has for every problem the numbers of right answers of its stages, in order."""
    asked, counts = [], {}

    def speak(ask):
        number, stage = int(ask.request.problem.id[-1]), stage_of(ask.request)
        asked.append((number, stage, readable(ask.parent.sequence)))
        counts[number, stage] = counts.get((number, stage), 0) + 1
        return "d" if counts[number, stage] <= rights[number].get(stage, 0) else "x"

    world, _ = scripted_world(TOY, speak, reward=Verified())
    problems = [replace(p, id=f"p{i}", text="c", answer="d") for i, p in enumerate(TOY.source.draw(range(len(rights)), None, Key(0)))]
    groups = asyncio.run(STATELESS.run([Request(p, count=2) for p in problems], world))
    return groups, asyncio.run(world.aside()), asked, world


def test_only_problems_without_a_right_answer_reach_a_later_stage() -> None:
    """Accuracies 0.5, 0 and 1: the first is trained on, the second is decomposed, the third is dropped."""
    groups, copies, asked, world = played({"plain": 1}, {"decompose": 1}, {"plain": 2})
    assert sorted({(n, stage) for n, stage, _ in asked}) == [(0, "plain"), (1, "decompose"), (1, "plain"), (2, "plain")]
    kept, dropped = cog_rethinker.selection.keep([*groups, *copies], Key())
    assert [g.accuracy for g in kept] == [0.5, 0.5, 1.0]  # the last one is a copy, and is not dropped
    assert [g.accuracy for g in dropped] == [1.0]
    assert {t.links.get("attempt") for t in groups[1].trajectories} == {"decompose"}
    assert (world.notes["decompose"], world.notes["decompose/rescued"], world.notes["correct"]) == (pytest.approx(1 / 3), 1.0, 0.0)


def test_what_still_fails_is_corrected_from_a_wrong_solution() -> None:
    (group,), (copies,), asked, _ = played({"correct": 2})
    assert [(stage, prompt) for _, stage, prompt in asked[::2]] == [
        ("plain", "c"), ("decompose", f"c\n{DECOMPOSE}"), ("correct", "c\n" + CORRECT.format(attempt="x")),
    ]  # fmt: skip
    assert (len(asked), group.accuracy, len(copies.trajectories)) == (6, 1.0, 2)  # the answers of a group that is all right are imitated too


def test_imitated_inputs_have_the_plain_prompt_only() -> None:
    _, (copies,), _, _ = played({"correct": 1})
    (t,) = copies.trajectories
    assert (readable(t.contexts[0].sequence), t.source, copies.aside) == ("cd|", "expert", True)


def test_the_trained_answers_keep_their_template() -> None:
    (group,), _, _, _ = played({"decompose": 1})
    assert {readable(t.contexts[0].prefix) for t in group.trajectories} == {f"c\n{DECOMPOSE}"}
    assert all(t.contexts[0].logprobs is not None for t in group.trajectories)
    assert [row[0] for row in advantages_of(cog_rethinker.credit, group)[0]] == [1.0, -1.0]


def test_the_imitation_by_hand() -> None:
    """Two copies of 2 and 3 tokens: -0.1 / (2 * 2) and -0.1 / (2 * 3) per token."""
    group = toy_group(1, 1, lengths=[2, 3])
    copies = group.but(trajectories=tuple(t.but(source="expert") for t in group.trajectories))
    _, gradient, _ = loss_and_gradient({"r": cog_rethinker.objective["rescued"]}, [copies], [-1.0] * 5)
    assert gradient == pytest.approx([-0.025] * 2 + [-0.1 / 6] * 3)


def test_the_buffer_of_demonstrations() -> None:
    part = Demonstrated(most=2)
    (problem,) = TOY.source.draw([0], None, Key(0))

    def solved(name, question, said, stage="decompose", right=1.0):
        (t,) = toy_group(right, key=name).trajectories
        return t.but(problem=replace(problem, id=name, text=question), completion=said, links=Frozen(attempt=stage))

    rows = [solved("1", "c d", "s1"), solved("2", "e f", "s2", "correct"), solved("3", "e g", "s3"), solved("4", "h", "s4", right=0.0)]
    state = asyncio.run(part.learn([toy_group(1).but(trajectories=tuple(rows))], [], None, part.start()))
    assert state == {"solved": {"1": ["c d", [["s1", 1.0]]], "3": ["e g", [["s3", 1.0]]]}}
    attempt = SimpleNamespace(problem=replace(problem, text="g e"))
    texts, after = asyncio.run(part.texts([(None, attempt)], None, state))
    assert (texts, after) == ([f"example: e g\ns3\n{DECOMPOSE}"], state)
    state = asyncio.run(part.learn([], [toy_group(1).but(trajectories=(solved("1", "c d", "new"), solved("5", "q", "s5")))], None, state))
    assert state == {"solved": {"1": ["c d", [["new", 1.0]]], "5": ["q", [["s5", 1.0]]]}}  # the newest answer counts, and the oldest example is removed
    assert asyncio.run(part.texts([(None, attempt)], None, part.start()))[0] == [DECOMPOSE]


def test_selections_of_own_answers_only() -> None:
    own, given = toy_group(1, 1), toy_group(1)
    given = given.but(trajectories=tuple(t.but(source="expert") for t in given.trajectories))
    assert OwnAnswers().keep([own, given], Key()) == ([given], [own])


def test_without_later_stages_it_is_dapo() -> None:
    check_same_update(cog_rethinker.but(rollout=DynamicSampling()), dapo)
    assert set(changes(dapo, cog_rethinker)) == {"rollout.rollout", "selection", "objective.rescued"}
    eager = cog_rethinker.but(rollout=replace(ROLLOUT.rollout, at_most=1.0))
    check_different_update(eager, dapo)
    check_micro_batches(eager)
    check_resumes(eager, steps=2, after=1)


def test_the_papers_numbers() -> None:
    assert cog_rethinker.objective["rescued"] == Imitation(SequenceMean(), 0.1)
    assert cog_rethinker.selection == OwnAnswers(Mixed())
    assert isinstance(cog_rethinker.rollout.test, Auto)
