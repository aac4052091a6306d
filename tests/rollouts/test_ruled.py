"""The rule of a rollout reaches its samples."""

from __future__ import annotations

import asyncio

from gradus.rollouts.ruled import Ruled, ruled
from gradus.rollouts.single_turn import SingleTurn
from gradus.rollouts.token_rules import Banned
from gradus.testing.methods import steps_of
from gradus.types import Request
from gradus.types.records import Problem
from gradus.types.samplers import Drawing

PROBLEM = Problem("p", "t", text="ab")


def test_the_rule_of_a_rollout_reaches_its_samples():
    seen = []

    class World:
        async def sample(self, requests):
            seen.extend(r.how for r in requests)
            return []

    rule = Banned(sequences=((5,),))
    world = ruled(World(), rule)
    asyncio.run(world.sample([Request(PROBLEM), Request(PROBLEM, player="judge"), Request(PROBLEM, how=Drawing())]))
    assert seen == [rule, None, Drawing()]
    part = Ruled(rule, SingleTurn())
    assert part.test == part
    assert Ruled(rule, SingleTurn(), only_training=True).test == SingleTurn()


def test_a_run_samples_by_the_rule():
    """Token 3 is never drawn, and its log-probabilities are those of the other tokens alone."""
    from gradus import load_recipe

    plain, without = (
        steps_of(load_recipe("rloo").but(**more), steps=1, prompts=8) for more in ({}, {"rollout": Ruled(Banned(sequences=((3,),)), SingleTurn())})
    )
    tokens = [{int(x) for _, groups in found for g in groups for t in g.trajectories for x in t.contexts[0].tokens} for found in (plain, without)]
    assert 3 in tokens[0]
    assert 3 not in tokens[1]
