"""M-GRPO: places of calls, rewards of sub-agents, statistics before alignment, and gradients that stay with their agent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import numpy as np
import pytest
import torch

from gradus.credit.groups import group_relative
from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.multi_agent.m_grpo import AlignedCalls, m_grpo, places
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.episodes import Episodes
from gradus.testing.methods import check_bound_acts, scripted_world
from gradus.testing.methods.runs import toy_run, weights_after
from gradus.testing.methods.tasks import TOY_ERRANDS
from gradus.training.launch import go
from gradus.types import Ended, Failed, Frozen, Problem, Request, Trajectory, UserError
from gradus.types.players import Copy, Player

ROLES = Frozen(explorer="policy")


@pytest.mark.parametrize("seed", range(20))
def test_no_call_one_call_and_three_calls_fill_two_places_each(seed):
    found = places([0, 1, 3], 2, Random(seed))
    assert sum(map(sum, found)) == 6  # K D = 3 * 2 entries
    assert found[0] == []
    # without the two places of rollout 1, which are drawn from the four calls: the call of rollout 2 has both of its places, one call of rollout 3 has none
    assert found[1][0] >= 2
    assert sum(n > 0 for n in found[2]) in (2, 3)
    assert sum(found[2]) >= 2


def test_places_without_a_rollout_that_has_no_call():
    for seed in range(20):
        one, three = places([1, 3], 2, Random(seed))
        assert one == [2]
        assert sorted(three) == [0, 1, 1]
    assert {tuple(places([3], 2, Random(s))[0]) for s in range(50)} == {(0, 1, 1), (1, 0, 1), (1, 1, 0)}  # which one is dropped is drawn
    two = {tuple(places([2], 3, Random(s))[0]) for s in range(50)}
    assert two == {(1, 2), (2, 1)}  # every call has a place, the third place is drawn
    assert places([0, 0], 2, Random(0)) == [[], []]  # no call of the query: nothing to fill the places


def call(quality, *, invalid=0, ended=Ended.ENVIRONMENT):
    return Trajectory("c", Problem("p", "t"), (), reward=quality, ended=ended, links=Frozen(invalid=invalid, parent="m"))


def sender(reward):
    return Trajectory("m", Problem("p", "t"), (), reward=reward)


@pytest.mark.parametrize(
    ("quality", "invalid", "ended", "outcome", "reward"),
    [
        (0.5, 0, Ended.ENVIRONMENT, 0.0, 0.25),  # .1 * 1 + .6 * 0 + .3 * .5
        (1.0, 0, Ended.ENVIRONMENT, 1.0, 1.0),
        (1.0, 1, Ended.ENVIRONMENT, 1.0, 0.9),  # an illegal action
        (0.0, 0, Ended.TRUNCATED, 1.0, 0.6),  # no result
        (0.0, 2, Ended.TRUNCATED, 0.0, 0.0),
    ],
)
def test_the_reward_of_a_call_by_hand(quality, invalid, ended, outcome, reward):
    found = AlignedCalls()._judged(call(quality, invalid=invalid, ended=ended), sender(outcome))
    assert found.reward == pytest.approx(reward)


def test_a_failed_sender_or_call_stays_failed():
    assert isinstance(AlignedCalls()._judged(call(1.0), sender(Failed("lost"))).reward, Failed)
    assert AlignedCalls()._judged(call(Failed("late")), sender(1.0)).reward == Failed("late")


def episodes(script, calls=2):
    """Three rollouts of the toy corridor; `script` gives the actions of each. An action "h" sends the explorer, whose action "b" earns 1."""
    told = []

    def speak(ask):
        tags = ask.request.tags
        if "errand" in tags:
            return "b" if ask.request.sample == 2 and tags[tags.index("errand") + 2] == 0 else "c"
        return script[ask.request.sample][tags[-1]]

    world, _ = scripted_world(TOY_ERRANDS, speak, reward=EnvironmentReturn(), max_tokens=2)
    (problem,) = TOY_ERRANDS.source.draw([0], None, world.seed)
    part = AlignedCalls(Episodes(roles=ROLES), calls)
    groups = asyncio.run(part.run([Request(problem, 3)], world))
    told.extend(asyncio.run(world.aside()))
    return groups, told, world


SCRIPT = [["b", "b", "b"], ["h", "b", "b", "b"], ["h", "h", "h", "c", "c", "c"]]
"""Rollout 1 has no call and reaches the goal, rollout 2 has one call and reaches it, rollout 3 has three calls and does not."""


def test_rewards_places_and_statistics_of_a_query():
    (main,), (calls,), world = episodes(SCRIPT)
    assert main.rewards.tolist() == [1, 1, 0]
    assert calls.aside
    assert len(calls.trajectories) == 4  # the four original calls, each once
    assert sum(t.weight for t in calls.trajectories) == 6
    found = {(t.links["parent"][-1], t.links["turn"]): t for t in calls.trajectories}
    assert len(found) == 4
    rewards = sorted(round(t.value, 6) for t in calls.trajectories)
    assert rewards == [0.1, 0.1, 0.4, 0.7]  # .1 form; .6 of a right main agent; .3 of the one good result
    # the mean .325 is that of the four calls, not of the six places
    advantages = group_relative(calls.rewards, scale="population")
    assert (advantages * calls.rewards.std() + 0.325) == pytest.approx(calls.rewards)
    assert world.notes["calls"] == pytest.approx(4 / 3)
    assert world.notes["calls/reward"] == pytest.approx(0.325)


def test_a_query_without_calls_has_no_group_of_calls():
    (main,), calls, world = episodes([["b", "b", "b"]] * 3)
    assert calls == []
    assert world.notes["calls"] == 0
    assert len(main.trajectories) == 3


def test_each_agent_learns_from_its_own_trajectories_alone():
    def moved(made):
        run = toy_run(made, task=TOY_ERRANDS, steps=2, prompts=2, group=16)
        start = {n: [p.detach().clone() for p in run.players[n].policy.network.parameters()] for n in ("policy", "explorer")}
        go(run)
        return {n: any(not torch.equal(a, b) for a, b in zip(start[n], run.players[n].policy.network.parameters(), strict=True)) for n in start}

    assert moved(m_grpo) == {"policy": True, "explorer": True}
    assert moved(m_grpo.but(objective=Frozen())) == {"policy": False, "explorer": True}
    assert moved(m_grpo.but(players__explorer__objective=None)) == {"policy": True, "explorer": False}


def test_an_explorer_without_a_rule_takes_the_rule_of_the_recipe():
    """A player without its own credit rule, which learns from its own trajectories, moves exactly as with the recipe's rule."""
    own, shared, frozen = (
        weights_after(m_grpo.but(players__explorer__credit=m_grpo.credit if rule else None), task=TOY_ERRANDS, prompts=2, group=16, rate=rate)
        for rule, rate in ((True, 1.0), (False, 1.0), (False, 0.0))
    )
    assert all(torch.equal(own[name], shared[name]) for name in own)
    assert not torch.equal(shared["explorer.logits"], frozen["explorer.logits"])


def test_with_a_frozen_explorer_the_main_agent_learns_as_by_grpo():
    frozen = m_grpo.but(players__explorer__objective=None)
    plain = grpo.but(
        rollout=Episodes(roles=Frozen(explorer="explorer")),
        reward=EnvironmentReturn(),
        objective__policy__trust=Clip(0.2, 0.28),
        objective__kl=None,
        players=Frozen(policy=grpo.players["policy"], explorer=Player(Copy("policy"))) if "policy" in grpo.players else Frozen(explorer=Player(Copy("policy"))),
        update__count=2,
    )
    ours, base = (weights_after(r, steps=2, task=TOY_ERRANDS, group=8)["policy.logits"] for r in (frozen, plain))
    assert torch.equal(ours, base)


def test_a_place_counts_in_the_loss_as_a_copy():
    from gradus.testing.methods import loss_and_gradient, toy_group

    pair = toy_group(1, 0, lengths=[2, 3])
    first, second = pair.trajectories
    weighted = pair.but(trajectories=(first.but(weight=2.0), second.but(weight=1.0)))
    copied = pair.but(trajectories=(first, first.but(id="again"), second))
    objective = m_grpo.players["explorer"].objective
    one, slopes, _ = loss_and_gradient(objective, [weighted], [0.0] * 5, advantages=[1, -1])
    other, copies, _ = loss_and_gradient(objective, [copied], [0.0] * 7, advantages=[1, 1, -1])
    joined = np.array(copies[:2]) + np.array(copies[2:4])
    # 2 calls against 3 places in the denominator
    assert one / 3 * 2 == pytest.approx(other)
    assert np.array(slopes[:2]) / 3 * 2 == pytest.approx(joined)


def test_its_changes():
    found = set(changes(grpo, m_grpo))
    assert {"rollout", "reward", "objective.policy.trust.high", "objective.kl", "players.explorer", "update.count"} <= found


def test_the_clip_acts_with_two_updates_per_batch():
    check_bound_acts(m_grpo, updates=2, task=TOY_ERRANDS, prompts=2, group=8, learning_rate=0.3)


def test_a_number_of_places_below_one_is_refused():
    with pytest.raises(UserError, match="calls"):
        AlignedCalls(calls=0)
    assert replace(AlignedCalls(), calls=2).test == AlignedCalls().rollout
