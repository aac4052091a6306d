"""Answers under the plain prompt: their tokens, their source, and their log-probabilities."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.reprompted import AlsoReprompted, Reprompted
from gradus.testing.methods import TOY, readable, scripted_world
from gradus.types import Ended, Key, Request, UserError


def played(rollout, prompt, **options):
    world, _ = scripted_world(TOY, lambda ask: "bcd", reward=Verified(), **options)

    async def score(contexts, want, player="policy", **_):
        return [np.full(c.actions, -len(c.prefix) / 2) for c in contexts]

    world.score = score
    (problem,) = TOY.source.draw([0], None, Key(0))
    (group,) = asyncio.run(rollout.run([Request(problem, count=2, prompt=prompt)], world))
    return group.trajectories[1]


@pytest.mark.parametrize("source", ["expert", "policy"])
def test_an_answer_moves_to_the_plain_prompt(source):
    t = played(Reprompted(source=source), "a\nhint: b")
    (context,) = t.contexts
    assert readable(context.sequence) == "abcd|"
    assert (t.source, t.reward, t.completion, t.actions, context.ended) == (source, 1.0, "bcd", 4, Ended.STOP)
    if source == "policy":
        assert context.logprobs.tolist() == [-0.5] * 4  # after the plain prompt of one token
        assert context.versions.tolist() == [7] * 4
    else:
        assert context.logprobs is None


def test_the_reason_of_the_end_stays():
    assert played(Reprompted(), "a\nx", max_tokens=2).contexts[0].ended is Ended.LENGTH


def test_an_answer_to_the_plain_prompt_does_not_change():
    t = played(Reprompted(), None)
    assert (t.source, t.contexts[0].logprobs.tolist()) == ("policy", [-0.125, -0.25, -0.375, -0.5])


def test_what_is_refused():
    assert Reprompted().test == Auto()
    with pytest.raises(UserError, match=r"Reprompted\.source"):
        Reprompted(source="me")


def test_copies_of_right_answers_are_added_next_to_the_answers():
    said = iter(["bcd", "x"])
    world, _ = scripted_world(TOY, lambda ask: next(said), reward=Verified())
    (problem,) = TOY.source.draw([0], None, Key(0))
    (group,) = asyncio.run(AlsoReprompted().run([Request(problem, count=2, prompt="a\nhint")], world))
    assert [readable(t.contexts[0].sequence) for t in group.trajectories] == ["a\nhintbcd|", "a\nhintx|"]
    (copies,) = asyncio.run(world.aside())
    (copy,) = copies.trajectories
    assert (readable(copy.contexts[0].sequence), copy.source, copy.id) == ("abcd|", "expert", "3/toy/0/0/plain")
    assert world.notes == {"copies": 1.0}


def test_plain_prompts_get_no_copies():
    world, _ = scripted_world(TOY, lambda ask: "b", reward=Verified())
    (problem,) = TOY.source.draw([0], None, Key(0))
    asyncio.run(AlsoReprompted().run([Request(problem, count=2)], world))
    assert (asyncio.run(world.aside()), world.notes) == ([], {})
    with pytest.raises(UserError, match=r"AlsoReprompted\.source"):
        AlsoReprompted(source="policy")
