"""One turn: a group a request, in order, with what the model said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from gradus.rollouts.single_turn import SingleTurn
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Context, Ended, Frozen, Problem, Request, UserError, prompt_context
from gradus.types.parts import Judgement, Task


@dataclass(frozen=True)
class Length:
    """The reward is how many characters were said."""

    async def score(self, groups, signals, world):
        return [[Judgement(float(len(t.completion)), Frozen(length=float(len(t.completion)))) for t in g.trajectories] for g in groups]


def test_groups_by_hand() -> None:
    world, policy = scripted_world(TOY, lambda ask: ask.request.problem.text * (1 + ask.request.count), reward=Length())
    requests = [
        Request(Problem("p", "toy", text="x"), count=2),
        Request(Problem("q", "toy", text="y"), tags=("low", 1), sample=5, trained=False),
    ]
    first, second = asyncio.run(SingleTurn().run(requests, world))
    assert policy.batches == [3]  # both requests in one batch
    assert (first.key, second.key) == ("p", "q/low/1")
    assert [t.id for t in (*first.trajectories, *second.trajectories)] == ["3/p/0", "3/p/1", "3/q/low/1/5"]
    assert [t.completion for t in first.trajectories] == ["xxx", "xxx"]  # the end token has no text
    assert first.rewards.tolist() == [3.0, 3.0]
    assert second.trajectories[0].value == 2.0
    assert [t.trained for t in (*first.trajectories, *second.trajectories)] == [True, True, False]
    assert first.trajectories[0].contexts[0].tokens.tolist() == [125, 125, 125, 0]  # 5 + ord("x") = 125, then the end


def test_the_end_is_the_contexts() -> None:
    world, _ = scripted_world(TOY, lambda ask: "abcdef", reward=Length(), max_tokens=4)
    (group,) = asyncio.run(SingleTurn().run([Request(Problem("p", "toy", text="x"))], world))
    assert group.trajectories[0].ended is Ended.LENGTH
    assert group.trajectories[0].completion == "abcd"


def test_a_context_to_go_on_from_keeps_its_own_tokens_out_of_the_completion() -> None:
    world, _ = scripted_world(TOY, lambda ask: "z", reward=Length())
    start: Context = prompt_context([110, 111])
    (group,) = asyncio.run(SingleTurn().run([Request(Problem("p", "toy", text="x"), prompt=start, at=1)], world))
    assert group.trajectories[0].completion == "z"
    assert group.trajectories[0].contexts[0].sequence.tolist() == [110, 127, 0]  # 5 + ord("z") = 127


def test_a_task_of_many_turns_is_refused() -> None:
    task: Task = replace(TOY, environment=FrozenLake())
    world, _ = scripted_world(task, lambda ask: "up")
    with pytest.raises(UserError, match="rollout Episodes"):
        asyncio.run(SingleTurn().run([Request(Problem("p", "toy", text="x"))], world))
