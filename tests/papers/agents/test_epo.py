"""EPO: returns and weights by hand, the judges, a frozen actor, both forms of the credit, and REINFORCE at the limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gradus.credit.gae import discounted
from gradus.credit.groups import BatchBaseline
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import PolicyGradient, evaluate
from gradus.objectives.trust import Unclipped
from gradus.papers.agents.epo import KEY, KeyOutcomes, KeyReturns, KeyTurns, NoKeys, ScriptedKeys, WrittenKeys, epo, spoken, turn_ends
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.seats import Seats
from gradus.tasks.games.negotiation import follow, negotiation
from gradus.testing.methods import TOY_EPISODES, check_different_update, check_same_update, scripted_world
from gradus.testing.methods.scripted import scripted_context
from gradus.types import Frozen, Group, Key, Problem, Request, Sampling, Trajectory, UserError
from gradus.types.batch import make_batch
from gradus.types.parts import Turn
from gradus.types.signals import LogProb
from tests.rollouts.test_seats import World

TASK = negotiation(team=True)
PROBLEM = Problem("p", "negotiation", messages=({"role": "user", "content": "lamp, limit 14"},), meta=Frozen(limit=14, cost=8, ask=16))
PLANS = ["ask", "bid kindly", "bid", "bid"]


def episode(keys, goal, *, lengths=None, name="t"):
    """An episode with one growing context; `keys` marks the key turns."""
    lengths = lengths or [1] * len(keys)
    ends = np.cumsum(lengths) - 1
    streams = Frozen(turn=np.repeat(np.arange(len(keys)), lengths), state=np.repeat(np.arange(len(keys)), lengths))
    context = replace(scripted_context("a" * sum(lengths)), streams=streams, rewards=tuple((int(e), KEY, 1.0) for e, k in zip(ends, keys, strict=True) if k))
    return Trajectory(name, Problem("p", "t"), (context,), reward=goal)


def weights(rule, *episodes):
    return [c.advantages for c in rule.assign([Group("g", episodes)], {})[0]]


def played(plans=PLANS, reward=None, rollout=None, said=None, judge=None):
    """Plays an episode: the strategist says `plans`, and the actor follows them. Returns the groups, and the players that were asked."""
    asked = []

    def speak(ask):
        name, tags = ask.request.player, ask.request.tags
        asked.append(name)
        if name == "judge":
            return judge
        turn = tags[-1] // 2
        plan = plans[min(turn, len(plans) - 1)]
        if tags[tags.index("seat") + 1] == "strategist":
            return plan
        return said[turn] if said else follow(plan, 14, 8 if "ask" in plans[:turn] else None)

    world, policy = scripted_world(TASK, speak, reward=reward or epo.reward)
    for name in ("actor", "other", "judge"):
        world.players[name] = SimpleNamespace(policy=policy, name=name, updates=0, micro_tokens=1000, most_asks=None)
    return asyncio.run((rollout or epo.rollout).run([Request(PROBLEM, 1)], world)), asked, world


def test_returns_of_turns_by_hand():
    assert discounted(np.array([0.0, 1, 0, 1]), gamma=0.95).tolist() == pytest.approx([1.807375, 1.9025, 0.95, 1.0])
    (row,) = weights(KeyReturns(0.95), episode([0, 1, 0, 1], 0.4))
    assert row.tolist() == pytest.approx(np.array([1.807375, 1.9025, 0.95, 1.0]) / 1.9025 / 4)  # four turns of one token
    assert KeyReturns().gamma == 0.99


def test_the_last_turn_earns_the_outcome_if_it_is_no_key_turn():
    rule = KeyReturns(0.5)
    (row,) = weights(rule, episode([1, 0, 0], 0.4))  # returns 1.1, 0.2, 0.4
    assert row.tolist() == pytest.approx(np.array([1.1, 0.2, 0.4]) / 1.1 / 3)
    (row,) = weights(rule, episode([1, 0, 1], 0.4))  # returns 1.25, 0.5, 1: the outcome does not count
    assert row.tolist() == pytest.approx(np.array([1.25, 0.5, 1.0]) / 1.25 / 3)
    assert weights(rule, episode([0, 0], 0.0))[0].tolist() == [0.0, 0.0]
    assert weights(rule, episode([0], 0.3))[0].tolist() == [1.0]  # the scale removes the size of the outcome
    alone, beside = weights(rule, episode([1, 0], 0.4))[0], weights(rule, episode([1, 0], 0.4), episode([0, 1], 1.0, name="u"))[0]
    assert alone.tolist() == beside.tolist()  # no mean over the group or the batch


def test_tokens_of_a_turn_share_its_weight():
    (row,) = weights(KeyReturns(0.5), episode([0, 1], 0.0, lengths=[4, 2]))
    assert row.tolist() == pytest.approx([0.5 / 2 / 4] * 4 + [1.0 / 2 / 2] * 2)
    chosen = episode([0, 1], 0.0, lengths=[4, 2])
    batch = make_batch([Group("g", (chosen.but(advantages=row),))], {}, dtype=torch.float64)
    logprobs = torch.full((6,), -0.5, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(epo.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    assert logprobs.grad.tolist() == pytest.approx((-row).tolist())  # mean over turns of weight times the mean over tokens


def test_the_rule_over_the_batch():
    rule = KeyOutcomes(0.5)
    rows = weights(rule, episode([1, 0], 0.8), episode([0, 1], 0.4, name="u"))  # rewards .8 0 and 0 .4; returns .8 0 .2 .4
    every = np.array([0.8, 0.0, 0.2, 0.4])
    wanted = (every - 0.35) / every.std() / 2
    assert np.concatenate(rows).tolist() == pytest.approx(wanted.tolist())
    assert not np.concatenate(weights(rule, episode([1], 0.5), episode([1], 0.5, name="u"))).any()  # equal returns
    assert KeyOutcomes().gamma == 0.95
    for made in (KeyReturns, KeyOutcomes):
        with pytest.raises(UserError, match="gamma"):
            made(2.0)


def test_an_episode_with_a_scripted_judge():
    """16? why: cost 8; 16?; a polite 8 lowers to 13, a plain 8 to 11, to 9, and so on: the first two strategies are keys, and so is the deal."""
    (first, second), asked, world = played()
    mine, actor = first.trajectories[0], second.trajectories[0]
    assert (mine.links["role"], mine.player, actor.player) == ("strategist", "policy", "actor")
    assert spoken(mine, world)[:3] == PLANS[:3]
    assert spoken(actor, world)[:3] == ["why", "please offer 8", "offer 8"]
    assert mine.value == actor.value == pytest.approx(1.0)
    marked = [action for c in mine.contexts for action, name, _ in c.rewards if name == KEY]
    ends = [action for _, action, _ in turn_ends(mine)]
    assert [ends.index(a) for a in marked] == [0, 1, len(ends) - 1]
    assert mine.components["keys"] == pytest.approx(3 / len(ends))
    assert KEY not in {name for c in actor.contexts for _, name, _ in c.rewards}
    assert set(asked) == {"policy", "actor"}


def test_the_other_judges():
    (first, _), _, _ = played(reward=KeyTurns(NoKeys()))
    assert first.trajectories[0].components["keys"] == 0.0
    (row,) = weights(KeyReturns(0.5), first.trajectories[0])
    assert row[-1] == max(row) > 0
    (first, _), asked, _ = played(reward=KeyTurns(WrittenKeys()), judge="2 and 1, not 99 or 0")
    ends = [action for _, action, _ in turn_ends(first.trajectories[0])]
    assert sorted(ends.index(a) for c in first.trajectories[0].contexts for a, name, _ in c.rewards if name == KEY) == [0, 1]
    assert asked.count("judge") == 1
    found = ScriptedKeys(("knowledge",))
    (first, _), _, _ = played(reward=KeyTurns(found))
    assert sum(name == KEY for c in first.trajectories[0].contexts for _, name, _ in c.rewards) == 1


def test_a_failed_deal_earns_nothing_and_the_actor_can_be_replaced():
    (first, second), _, _ = played(["deal"])  # at 16, above the limit of 14
    assert (first.trajectories[0].value, second.trajectories[0].value) == (0.0, 0.0)
    assert not weights(KeyReturns(), first.trajectories[0])[0].any()
    (first, _), _, _ = played(["ask", "deal"])  # the question is no key strategy, because there is no gain
    assert first.trajectories[0].components["keys"] == 0.0
    (_, second), asked, _ = played(rollout=Seats(players=Frozen(agent="other")))
    assert second.trajectories[0].player == "other"
    assert set(asked) == {"policy", "other"}


def test_only_the_tokens_of_the_strategist_are_actions_and_the_actor_is_frozen():
    (first, _), _, world = played()
    mine = first.trajectories[0]
    assert mine.actions == sum(len(plan) + 1 for plan in spoken(mine, world))  # each plan and its end token
    assert not any(getattr(epo.players["actor"], "objective", None) or {})
    read = world.text(mine.contexts[-1].tokens[~mine.contexts[-1].chosen], "policy")
    assert "please offer 8" in read  # the strategist reads the words of its agent
    assert "14" in read or "13" in read


def test_a_recorded_demonstration_of_a_team():
    (problem,) = TASK.source.draw([0], 1, Key(0))
    said = [action for _, action in problem.meta["demonstration"]]
    assert said[:2] == ["ask kindly", "please why"]
    assert set(said[2::2]) == {"bid kindly"}
    assert problem.meta["demonstration"][1][0].endswith("\nplan: ask kindly")


class Once:
    """The seat A names one letter; "b" earns 1."""

    def __init__(self):
        self.first = Turn("", player="A")

    async def step(self, action):
        return Turn("", float("b" in action), terminated=True, player="A")


def test_its_changes_and_the_limit_at_which_it_is_reinforce():
    assert set(changes(reinforce, epo)) == {"rollout", "reward", "credit", "players.actor"}
    task = replace(TOY_EPISODES, environment=World(Once, seats=("A",)), sampling=Sampling(max_tokens=1))
    mine = epo.but(rollout=Seats(), reward=EnvironmentReturn(), players__actor=None)
    average = Frozen(policy=PolicyGradient(trust=Unclipped(), average=SequenceMean()))
    base = reinforce.but(rollout=Seats(), reward=EnvironmentReturn(), credit=BatchBaseline("none"), objective=average)
    check_same_update(mine, base, task=task)  # one turn, no keys, outcome 0 or 1: the weight is the outcome
    check_different_update(mine, base.but(credit=reinforce.credit), task=task)
