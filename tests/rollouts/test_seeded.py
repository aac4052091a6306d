"""The nearest examples, which answers see them, and answers under the plain prompt."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.rewards.verified import Verified
from gradus.rollouts.seeded import Seeded, unseeded
from gradus.rollouts.single_turn import SingleTurn
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.testing.methods import TOY, scripted_world, toy_group
from gradus.types import Key, Request, UserError


def spoken(asked):
    """A policy that answers every prompt wrongly unless the prompt has more than one line; `asked` collects its asks."""

    def speak(ask):
        asked.append(ask)
        return "z"

    return speak


def played(state, count, sample, asked):
    world, policy = scripted_world(TOY, spoken(asked), reward=Verified())

    async def score(contexts, want, player="policy", **_):
        return [np.full(c.actions, -0.5) for c in contexts]

    world.score = score
    world.note = lambda name, value: None
    problem = TOY.source.draw([0], None, Key(0))[0]
    request = Request(problem, count=count, sample=sample)
    groups, after = asyncio.run(Seeded().run([request], world, state))
    return problem, groups[0], after, policy


def test_a_problem_without_a_right_first_answer_is_marked():
    asked = []
    problem, group, after, _ = played({"solved": {}, "wrong": []}, 4, 0, asked)
    assert group.accuracy == 0.0
    assert after["wrong"] == [problem.id]
    assert len(group.trajectories) == 4


def test_half_of_the_further_answers_see_examples_and_lose_them():
    asked, solved = [], {"other": ["a b", [["ab", 1.0]]], "third": ["c d", [["cd", 1.0]]]}
    problem, group, after, policy = played({"solved": solved, "wrong": [TOY.source.draw([0], None, Key(0))[0].id]}, 4, 4, asked)
    texts = [policy.text(ask.parent.sequence) if hasattr(policy, "text") else "" for ask in asked]
    assert [len(t) > len(min(texts, key=len)) for t in texts] == [False, False, True, True]
    assert all(line in texts[-1] for line in ("a b", "ab", "c d", "cd"))
    assert len({bytes(t.contexts[0].prefix) for t in group.trajectories}) == 1  # all under the plain prompt
    assert [bool(t.links.get("seeded")) for t in group.trajectories] == [False, False, True, True]
    assert group.trajectories[2].contexts[0].logprobs.tolist() == [-0.5] * group.trajectories[2].actions
    assert len({t.id for t in group.trajectories}) == 4
    assert after["wrong"] == [problem.id]


@pytest.mark.parametrize(
    ("solved", "wrong", "sample", "count"),
    [({}, True, 4, 4), ({"other": ["a", [["b", 1.0]]]}, False, 4, 4), ({"other": ["a", [["b", 1.0]]]}, True, 0, 4), ({"other": ["a", [["b", 1.0]]]}, True, 4, 1)],
    ids=["nothing solved", "some right", "first answers", "one answer"],
)
def test_otherwise_nothing_is_seeded(solved, wrong, sample, count):
    name = TOY.source.draw([0], None, Key(0))[0].id
    _, group, _, _ = played({"solved": solved, "wrong": [name] if wrong else []}, count, sample, [])
    assert not any(t.links.get("seeded") for t in group.trajectories)
    assert len(group.trajectories) == count


def test_a_problem_is_no_example_of_itself():
    name = TOY.source.draw([0], None, Key(0))[0].id
    _, group, _, _ = played({"solved": {name: ["a", [["b", 1.0]]]}, "wrong": [name]}, 4, 4, [])
    assert not any(t.links.get("seeded") for t in group.trajectories)


def test_the_newest_right_answers_are_remembered():
    part = Seeded(most=2)
    made = [toy_group(1, 0, key=str(i)) for i in range(3)]
    named = [
        g.but(
            trajectories=tuple(
                t.but(problem=replace(t.problem, id=g.key, text=f"q{g.key}"), completion=f"y{j}") for j, t in enumerate(g.trajectories)
            )
        )
        for g in made
    ]
    state = asyncio.run(part.learn(named, [], SimpleNamespace(), {"solved": {"0": ["q0", [["old", 1.0]]]}, "wrong": ["5"]}))
    assert state == {"solved": {"1": ["q1", [["y0", 1.0]]], "2": ["q2", [["y0", 1.0]]]}, "wrong": []}


def test_an_answer_is_moved_with_its_own_tokens():
    world, _ = scripted_world(TOY, lambda ask: "ab", reward=Verified())

    async def score(contexts, want, player="policy", **_):
        return [np.arange(c.actions, dtype=float) for c in contexts]

    world.score = score
    problem = TOY.source.draw([0], None, Key(0))[0]
    plain, seeded = (
        asyncio.run(SingleTurn().run([Request(problem, count=2, prompt=prompt)], world))[0] for prompt in (None, "long prompt")
    )
    moved = asyncio.run(unseeded(seeded, plain, world))
    for before, after in zip(seeded.trajectories, moved.trajectories, strict=True):
        one, other = before.contexts[0], after.contexts[0]
        assert other.sequence[: len(plain.trajectories[0].contexts[0].prefix)].tolist() == plain.trajectories[0].contexts[0].prefix.tolist()
        assert other.tokens[other.chosen].tolist() == one.tokens[one.chosen].tolist()
        assert (other.versions.tolist(), other.logprobs.tolist()) == (one.versions.tolist(), list(range(one.actions)))
        assert after.reward == before.reward


def test_tasks_of_many_turns_and_wrong_numbers_are_refused():
    with pytest.raises(UserError, match="in place of Seeded"):
        Seeded().check_task(frozen_lake())
    with pytest.raises(UserError, match="it must"):
        Seeded(share=1.0)
