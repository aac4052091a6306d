"""Trajectories as turns: in one context or in many, with rewards at their actions or none."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.credit.turns import first_tokens, turns_of
from gradus.testing.methods import scripted_context, toy_trajectory
from gradus.types import Frozen, Problem, Trajectory, UserError


def context(*turns, rewards=()):
    """(turn, state, number of actions) each."""
    made = scripted_context("a" * sum(n for *_, n in turns))
    streams = {name: np.repeat([t[i] for t in turns], [t[2] for t in turns]) for i, name in enumerate(("turn", "state"))}
    return type(made)(made.tokens, made.chosen, made.logprobs, made.versions, rewards=rewards, streams=Frozen(streams), parent=made.parent)


def episode(*contexts, reward):
    return Trajectory("e", Problem("p", "t"), contexts, reward=reward)


GROWING = episode(context((0, 7, 2), (1, 8, 1), (2, 7, 3), rewards=((1, "environment", 0.5), (5, "environment", 1.0))), reward=1.5)
APART = episode(
    context((0, 7, 2), rewards=((1, "environment", 0.5),)),
    context((1, 8, 1)),
    context((2, 7, 3), rewards=((2, "environment", 1.0),)),
    reward=1.5,
)


@pytest.mark.parametrize("made", [GROWING, APART], ids=["one context", "a context a turn"])
def test_by_hand(made):
    turns = turns_of(made)
    assert turns.lengths.tolist() == [2, 1, 3]
    assert turns.states.tolist() == [7, 8, 7]
    assert turns.rewards.tolist() == [0.5, 0.0, 1.0]
    assert turns.spread(np.array([1.0, 2.0, 3.0])).tolist() == [1, 1, 2, 3, 3, 3]
    assert turns.sums(np.arange(6.0)).tolist() == [1, 2, 12]


def test_several_rewards_in_a_turn_add_up_and_the_rest_is_in_the_last():
    made = episode(context((0, 1, 2), (1, 2, 2), rewards=((0, "a", 0.5), (1, "b", -0.25))), reward=1.0)
    assert turns_of(made).rewards.tolist() == [0.25, 0.75]


def test_an_episode_without_actions_has_no_turns():
    assert turns_of(episode(context(), reward=0.0)).lengths.tolist() == []


def test_an_answer_without_turns_is_refused():
    with pytest.raises(UserError, match="trajectory t has no turns"):
        turns_of(toy_trajectory([1, 2]))


def test_the_first_token_of_every_turn_in_the_sequence():
    (made,) = GROWING.contexts
    begin = int(made.action_positions[0])
    assert first_tokens(GROWING) == [begin, begin + 2, begin + 3]
    assert first_tokens(episode(context((0, 1, 2)), reward=0.0)) == [begin]
