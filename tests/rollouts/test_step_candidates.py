"""Candidates for the next step: where they start and end, which of them are judged, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from gradus.papers.bases.grpo import grpo
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.step_candidates import LAST, STATE, StepCandidates, short, state_of
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods import TOY, scripted_world, toy_run
from gradus.testing.methods.tasks import TOY_STATES
from gradus.types import Frozen, Key, Request, Sampling, UserError


def played(texts, state="c ", *, part=None, sampling=None):
    """The group of these steps from the state, and the requests that sampled them."""
    given, asked = iter(texts), []

    def speak(ask):
        asked.append(ask)
        return next(given)

    world, _ = scripted_world(TOY, speak, reward=Verified())
    problem = TOY.source.draw([0], None, Key())[0]
    tokens = tuple(int(t) for t in world.told(state).tokens[: len(state)])
    request = Request(replace(problem, meta=Frozen({STATE: tokens})), count=len(texts), sampling=sampling)
    (group,) = asyncio.run((part or StepCandidates(player="policy")).run([request], world))
    return group, asked, world


def test_steps_start_after_the_state_and_only_last_ones_are_judged():
    group, asked, world = played(["a ", "b", "a"])
    assert [t.completion for t in group.trajectories] == ["c a ", "c b", "c a"]
    assert [t.links[LAST] for t in group.trajectories] == [False, True, True]
    assert [t.value for t in group.trajectories] == [0.0, 1.0, 0.0]  # a text with the letter b is right
    assert [dict(t.components) for t in group.trajectories] == [{}, {"verified": 1.0}, {"verified": 0.0}]
    assert world.notes[LAST] == pytest.approx(2 / 3)
    (context,) = group.trajectories[0].contexts
    assert world.text(context.sequence[: context.action_positions[0]]).endswith("c ")
    assert len({t.id for t in group.trajectories}) == 3
    assert asked[0].request.sampling.stops == (" ",)


def test_a_right_state_with_an_open_step_has_no_reward_yet():
    group, _, _ = played(["a "], state="b ")
    assert group.trajectories[0].value == 0.0


def test_the_limit_covers_the_state_and_the_stops_of_the_task_stay():
    _, asked, _ = played(["a"], sampling=Sampling(max_tokens=6, stops=("d",)))
    assert asked[0].request.sampling.max_tokens == 4
    assert asked[0].request.sampling.stops == ("d", " ")
    _, asked, _ = played(["a"], state="c c c ", sampling=Sampling(max_tokens=3))
    assert asked[0].request.sampling.max_tokens == 1


def test_another_player_samples_and_equal_states_have_equal_names():
    run = toy_run(grpo.but(rollout=StepCandidates(stop="b")), task=TOY_STATES)
    world = run.at(0)[1]
    requests = [Request(p, count=2) for p in TOY_STATES.source.draw([0, 3], None, Key())]
    groups = asyncio.run(StepCandidates(stop="b").run(requests, world))
    assert {t.player for g in groups for t in g.trajectories} == {"reference"}
    assert short(np.array([1, 2], np.int32)) == short(np.array([1, 2], np.int32)) != short(np.array([2, 1], np.int32))


def test_evaluation_samples_whole_answers():
    assert StepCandidates().test == Auto()


@pytest.mark.parametrize("wrong", [None, "ab", ("a",), 3])
def test_a_state_is_a_list_of_tokens(wrong):
    problem = TOY.source.draw([0], None, Key())[0]
    with pytest.raises(UserError, match="list of token numbers"):
        state_of(replace(problem, meta=Frozen({STATE: wrong})))


def test_no_text_and_no_stop_are_refused():
    with pytest.raises(UserError, match="writes no text"):
        StepCandidates().check_task(flow_2d())
    with pytest.raises(UserError, match="stop is empty"):
        StepCandidates(stop="")
