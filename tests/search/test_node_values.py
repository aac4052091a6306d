"""Values of beginnings of answers: the value head after the last token, the reward of the text, and the mean over continuations."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.papers.bases.ppo import ppo
from gradus.rewards.verified import Verified
from gradus.search.node_values import MeanOfContinuations, PlayerValue, RewardOfText
from gradus.testing.methods import TOY, scripted_context, scripted_world, toy_run, toy_trajectory
from gradus.types import Failed, Frozen, Problem, UserError, prompt_context
from gradus.types.contexts import after_prompt
from gradus.types.parts import Judgement
from gradus.types.signals import Value

PROBLEM = Problem("p", "toy", text="q", answer="ab")


def begun(text, over=False):
    context = scripted_context(text)
    return toy_trajectory([1]).but(id=text, problem=PROBLEM, contexts=(context.first(len(text)),), completion=text, links=Frozen(over=over))


def test_the_head_reads_the_state_after_the_last_token() -> None:
    world = toy_run(ppo).at(0)[1]
    found, tokens = asyncio.run(PlayerValue("critic").values([toy_trajectory([3, 1]), toy_trajectory([3, 2]), toy_trajectory([5, 1])], world))
    assert tokens == 0
    assert found[0] == found[2]  # a bigram model reads the last token alone
    assert found[0] != found[1]
    (row,) = asyncio.run(world.score([after_prompt(prompt_context([3, 1]))], Value(), "critic"))
    assert np.asarray(row).shape == (1,)
    assert found[0] == pytest.approx(float(row[0]))


def test_the_reward_of_the_text() -> None:
    world, _ = scripted_world(TOY, lambda ask: "", reward=Verified())
    found, tokens = asyncio.run(RewardOfText().values([begun("ab"), begun("a"), begun("ab", over=True)], world))
    assert (found, tokens) == ([1.0, 0.0, 1.0], 0)


class Broken:
    """A reward that fails for the text "a"."""

    needs = ()

    async def score(self, groups, signals, world):
        return [[Judgement(Failed("no") if t.completion == "a" else 0.5) for t in g.trajectories] for g in groups]


def test_a_failed_reward_has_the_value_0() -> None:
    world, _ = scripted_world(TOY, lambda ask: "", reward=Broken())
    assert asyncio.run(RewardOfText().values([begun("a"), begun("ab")], world)) == ([0.0, 0.5], 0)


def test_the_mean_of_continuations_and_their_tokens() -> None:
    rests = iter(["b", "c", "b", "b"])
    world, _ = scripted_world(TOY, lambda ask: next(rests), reward=Verified())
    found, tokens = asyncio.run(MeanOfContinuations(4).values([begun("a")], world))
    assert (found, tokens) == ([0.75], 8)  # each rest has an end token
    found, tokens = asyncio.run(MeanOfContinuations(4).values([begun("ab", over=True)], world))
    assert (found, tokens) == ([1.0], 0)
    with pytest.raises(UserError, match=r"MeanOfContinuations\.count"):
        MeanOfContinuations(0)
