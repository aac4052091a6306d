"""Sampling by another player: every request goes there, in the real world."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from gradus.papers.objectives.m2po import m2po
from gradus.rollouts.auto import Auto
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.testing.methods import TOY, toy_run
from gradus.types import Key, Request
from gradus.types.signals import LogProbs


def test_the_named_player_samples_and_its_log_probabilities_are_not_the_policys():
    run = toy_run(m2po)
    with torch.no_grad():
        run.players["generator"].policy.network.logits.mul_(2.0)
    world = run.at(0)[1]
    problems = TOY.source.draw([0, 1], None, Key())
    groups = asyncio.run(BehaviourPolicy("generator", Auto()).run([Request(p, count=2) for p in problems], world))
    assert [[t.player for t in g.trajectories] for g in groups] == [["generator"] * 2] * 2
    assert [g.key for g in groups] == ["toy/0/generator", "toy/1/generator"]
    found = asyncio.run(world.signals(groups, [LogProbs(), LogProbs(player="generator")]))
    for name, signal in (("policy", LogProbs()), ("generator", LogProbs(player="generator"))):
        table = run.players[name].policy.network.logits.log_softmax(-1).detach().numpy()
        for t in (t for g in groups for t in g.trajectories):
            sequence = t.contexts[0].sequence
            expected = [table[a, b] for a, b in pairwise(sequence)]
            np.testing.assert_allclose(found[signal][t.id], expected, rtol=1e-5)
    assert world.spent["rollout/generator"] == sum(t.actions for g in groups for t in g.trajectories)


def test_given_pairs_need_no_judge_whoever_is_asked():
    pairs = replace(TOY, provides=frozenset({"chosen", "rejected"}))
    assert not BehaviourPolicy("generator", DemonstratedPairs()).judges(pairs)
    assert BehaviourPolicy("generator").judges(pairs)
