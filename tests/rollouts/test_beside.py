"""Two rollouts in a step: how many of each, on which problems, and what a curriculum without more problems gives."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.rollouts.auto import Auto
from gradus.rollouts.beside import Beside, beside
from gradus.rollouts.demonstrations import Demonstrations
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.in_flight import InFlight
from gradus.study.held_out import HeldOut
from gradus.testing.methods import check_resumes, toy_run
from gradus.training.launch import go
from gradus.types import UserError


@pytest.mark.parametrize(("own", "share", "count", "problems"), [(256, 0.2, 1, 64), (16, 0.2, 1, 4), (16, 0.2, 4, 1), (10, 0.5, 1, 10), (9, 0.0, 1, 0)])
def test_how_many(own, share, count, problems):
    assert beside(own, share=share, count=count) == problems


def test_the_groups_of_both_in_order_each_with_its_own_problems():
    run = toy_run(grpo)
    world = run.at(0)[1]
    requests = asyncio.run(world.more(4))
    groups = asyncio.run(Beside(Auto(), Auto(), share=1 / 3, count=2).run(requests, world))
    assert [(len(g.trajectories), g.aside) for g in groups] == [(4, False)] * 4 + [(2, True)] * 4  # 16 own, 8 others
    assert len({g.trajectories[0].problem.id for g in groups}) == 8
    assert world.notes["beside"] == 8


def test_a_curriculum_without_more_problems_gives_fewer():
    run = toy_run(grpo)
    world = run.at(0)[1]
    requests = asyncio.run(world.more(4))

    async def none(count):
        return []

    world.more = none
    assert not any(g.aside for g in asyncio.run(Beside(share=0.5).run(requests, world)))


def test_at_test_time_the_first_acts_alone():
    run = toy_run(grpo.but(rollout=Beside(DynamicSampling(Auto()), Demonstrations())), steps=1, eval_every=0)
    run.recipe = replace(run.recipe, study=HeldOut(problems=3, samples=2))
    rows = go(run).metrics
    assert rows[0]["held_out/problems"] == 3
    assert Beside(DynamicSampling(Auto())).test == Auto()
    assert Beside().judges(run.task)


def test_with_answers_in_flight_it_resumes():
    check_resumes(grpo.but(rollout=Beside(InFlight(2), Demonstrations(), share=0.5)), steps=4, after=2)


def test_refusals():
    with pytest.raises(UserError, match=r"Beside.share is 1.0; it must lie in \[0, 1\)"):
        Beside(share=1.0)
