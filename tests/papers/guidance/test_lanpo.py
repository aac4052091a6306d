"""LANPO: the three kinds of prompts, what they show, the pool, the advantage within a kind, and GRPO at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.credit.within import Linked, Within
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.lanpo import ASK, CHECK, KIND, Experienced, lanpo, of_kind
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.testing.methods import (
    TOY,
    advantages_of,
    check_different_update,
    check_micro_batches,
    check_resumes,
    check_same_update,
    readable,
    scripted_world,
    toy_group,
)
from gradus.types import Failed, Key, Request, UserError

(PROBLEM,) = TOY.source.draw([0], None, Key(0))  # "a"; the answer is "b"
HARD = replace(PROBLEM, id="p", text="seven plus five")


def played(pool, *, count=4, said="no", rollout=lanpo.rollout, problem=HARD, verify=TOY.verify):
    asked = []

    def speak(ask):
        asked.append((readable(ask.parent.sequence), ask.request.trained))
        return " be careful" if "abstract" in ask.request.tags else said

    world, _ = scripted_world(replace(TOY, verify=verify), speak, reward=Verified())
    ((group,), state) = asyncio.run(rollout.run([Request(problem, count=count)], world, {"pool": pool}))
    assert state == {"pool": pool}
    return group, asked, world


def kinds(group):
    return [t.links[KIND] for t in group.trajectories]


def test_half_of_the_answers_are_plain_a_quarter_reflect_and_a_quarter_see_a_lesson() -> None:
    pool = {"q": ["seven plus eight", [["old", 0.0], ["new", 1.0]]]}
    group, asked, world = played(pool, count=8)
    assert kinds(group) == ["plain"] * 4 + ["reflection"] * 2 + ["lesson"] * 2
    assert (world.notes["reflected"], world.notes["lessons"]) == (0.25, 0.25)
    texts = [text for text, _ in asked]
    assert texts[:4] == ["seven plus five"] * 4
    assert texts[4] == f"seven plus eight\nnew\nThis was right.\n{ASK}"
    assert not asked[4][1]  # the words of the lesson are not trained
    assert texts[5:7] == ["seven plus five\n" + CHECK.format(attempt="no")] * 2
    assert texts[7:] == ["lesson: be careful\nseven plus five"] * 2
    assert len(group.pool) == 8
    assert all(t.contexts[0].logprobs is not None for t in group.trajectories)  # under the prompt from which it was sampled


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_reflection_never_tells_the_reward(reward: float) -> None:
    _, asked, _ = played({"p": ["seven plus five", [["12", reward]]]})
    assert [text for text, _ in asked][2] == "seven plus five\n12\nThis attempt may be right or wrong. Check it, then solve the problem."


def test_the_choice_of_an_attempt_ignores_its_reward() -> None:
    attempts = [[str(i), float(i == 7)] for i in range(8)]
    flipped = [[text, 1 - reward] for text, reward in attempts]
    one, other = (played({"p": ["seven plus five", rows]})[1][2] for rows in (attempts, flipped))
    assert one == other


def test_no_lesson_contains_an_attempt_at_the_same_problem() -> None:
    pool = {"p": ["seven plus four", [["secret", 1.0]]], "again": ["seven plus five", [["hidden", 1.0]]], "q": ["seven plus one", [["8", 1.0]]]}
    lesson = next(text for text, trained in played(pool)[1] if not trained)
    assert lesson == f"seven plus one\n8\nThis was right.\n{ASK}"


def test_the_floor_of_the_similarity() -> None:
    group, asked, _ = played({"q": ["nothing alike here", [["8", 1.0]]]})
    assert kinds(group) == ["plain", "plain", "reflection", "plain"]
    assert asked[-1][0] == "seven plus five"  # the plain prompt, byte for byte


def test_advantages_within_a_kind() -> None:
    group = toy_group(1, 0, 0, 1, 1, 0)
    marked = [of_kind(group.but(trajectories=(t,)), kind).trajectories[0] for t, kind in zip(group.trajectories, "ppppqq", strict=True)]
    found = [row[0] for row in advantages_of(lanpo.credit, group.but(trajectories=tuple(marked)))[0]]
    assert found == [1, -1, -1, 1, 1, -1]
    alone = of_kind(toy_group(1, 1, 0).but(trajectories=toy_group(1, 1, 0).trajectories[:1]), "x")
    assert advantages_of(lanpo.credit, alone)[0][0][0] == 0.0


def test_the_pool() -> None:
    part = Experienced(attempts=2, problems=2)
    rows = [t.but(problem=replace(PROBLEM, id=i), completion=i) for i, t in zip("abca", toy_group(1, 0, 1, 0).trajectories, strict=True)]
    lost, given = rows[0].but(reward=Failed("x")), rows[2].but(source="expert")
    state = asyncio.run(part.learn([toy_group(1).but(trajectories=(*rows, lost, given))], [], None, part.start()))
    assert state == {"pool": {"c": ["a", [["c", 1.0]]], "a": ["a", [["a", 1.0], ["a", 0.0]]]}}
    group, _, _ = played({}, count=1, rollout=part)
    assert kinds(group) == ["plain"]
    broken, _, _ = played({}, verify=lambda *_: Failed("x"))  # nothing to reflect on
    assert kinds(broken) == ["plain"] * 4


def test_without_experience_it_is_grpo() -> None:
    base = grpo.but(setting__group=16)
    check_same_update(lanpo.but(rollout__reflect=0.0, rollout__abstract=0.0), base)
    check_different_update(lanpo, base)
    check_micro_batches(lanpo)
    check_resumes(lanpo, steps=2, after=1)


def test_the_numbers_and_what_is_refused() -> None:
    assert set(changes(grpo, lanpo)) == {"rollout", "credit", "setting.group"}
    assert lanpo.credit == Within(Linked(KIND))
    assert isinstance(lanpo.rollout.test, Auto)
    with pytest.raises(UserError, match=r"Experienced\.reflect"):
        Experienced(reflect=0.6)
