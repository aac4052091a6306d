"""The told answer: where it stands, who reads it, and what stays as it was."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.privileged import STREAM, PrivilegedPrompt, WithAnswers, told_first
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods import TOY, scripted_world, toy_trajectory
from gradus.types import Frozen, Group, Key, Request, UserError
from gradus.types.signals import seen_through


def played(part, **changes):
    asked = []
    world, _ = scripted_world(TOY, lambda ask: asked.append(ask) or "cd", reward=Verified())
    problem = replace(TOY.source.draw([2], None, Key())[0], **changes)  # the answer is the letter d
    (group,) = asyncio.run(part.run([Request(problem, count=2)], world))
    return group, world, asked


def test_the_actor_never_reads_the_answer_and_the_view_always_shows_it():
    group, world, asked = played(WithAnswers(Auto(), tell="say {answer}!"))
    for t in group.trajectories:
        (context,) = t.contexts
        assert context.streams[STREAM].shape == (context.actions, 6)
        prompt = world.text(context.until(int(context.action_positions[0])).sequence)
        assert "say" not in prompt
        (seen,) = seen_through(PrivilegedPrompt(), [context], Key())
        assert world.text(seen.until(int(seen.action_positions[0])).sequence) == f"say d!{prompt}"
    assert len(asked) == 2
    assert all("say" not in world.text(ask.parent.sequence) for ask in asked)


def test_the_view_keeps_actions_streams_and_log_probabilities():
    context = toy_trajectory([5, 6, 7], logprobs=[-1, -2, -3]).contexts[0]
    context = replace(context, chosen=np.array([True, False, True]), logprobs=context.logprobs[[0, 2]], versions=context.versions[[0, 2]])
    context = replace(context, streams=Frozen({STREAM: np.array([[8, 9]] * 2), "turn": np.array([0, 1])}))
    seen = PrivilegedPrompt().of(context, Key())
    assert seen.sequence.tolist() == [8, 9, *context.sequence.tolist()]
    assert (seen.action_positions - context.action_positions).tolist() == [2, 2]
    assert seen.logprobs.tolist() == [-1, -3]
    assert seen.streams is context.streams
    assert told_first(context, np.array([3])).sequence.tolist() == [3, *context.sequence.tolist()]


def test_without_the_stream_or_with_nothing_to_tell_the_view_changes_nothing():
    context = toy_trajectory([5]).contexts[0]
    assert PrivilegedPrompt().of(context, Key()) is context
    group, _, _ = played(WithAnswers(Auto(), tell=""))
    (context,) = group.trajectories[0].contexts
    assert context.streams[STREAM].shape == (context.actions, 0)
    assert PrivilegedPrompt().of(context, Key()) is context


def test_what_cannot_be_told_is_refused():
    with pytest.raises(UserError, match="writes no text"):
        WithAnswers().check_task(flow_2d())
    for tell in ("the answer", "{other}", "{"):
        with pytest.raises(UserError, match="`tell` is"):
            WithAnswers(tell=tell)
    world, _ = scripted_world(TOY, lambda ask: "c", reward=Verified())
    with pytest.raises(UserError, match="no answer for `tell`"):
        asyncio.run(WithAnswers(Given()).run([], world))
    assert WithAnswers(Auto()).test == Auto()


class Given:
    """A rollout of one answer to a problem without a reference answer."""

    async def run(self, requests, world):
        problem = replace(TOY.source.draw([0], None, Key())[0], answer=None)
        return [Group("g", (toy_trajectory([1]).but(problem=problem),))]
