"""A worked solution among a group's answers: its place, its judgement, its name."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.auto import Auto
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.mixed_policy import MixedPolicy
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.testing.methods import TOY, toy_run
from gradus.types import Frozen, Key, Request, UserError


class Never:
    """A selection that keeps nothing."""

    def keep(self, groups, key):
        return [], list(groups)


def groups_of(rollout, count, task=TOY, **meta):
    world = toy_run(reinforce, task=task).at(0)[1]
    problems = [replace(p, meta=Frozen({**p.meta, **meta})) for p in task.source.draw([0, 1], None, Key())]
    return asyncio.run(rollout.run([Request(p, count=count) for p in problems], world))


def test_the_last_answer_is_the_solution_and_is_judged():
    for group, plain in zip(groups_of(MixedPolicy(), 4), groups_of(Auto(), 3), strict=True):
        *samples, expert = group.trajectories
        assert [t.completion for t in samples] == [t.completion for t in plain.trajectories]
        assert (expert.source, expert.trained, expert.contexts[0].logprobs) == ("expert", True, None)
        assert expert.completion == expert.problem.meta["solution"]
        assert dict(expert.components) == {"verified": 1.0}
        assert group.pool == (*plain.pool, 1.0)
        assert len({t.id for t in group.trajectories}) == 4


def test_the_solution_can_have_the_source_of_the_samples():
    for group, plain in zip(groups_of(MixedPolicy(source="policy"), 3), groups_of(MixedPolicy(), 3), strict=True):
        assert [t.source for t in group.trajectories] == ["policy"] * 3
        assert (group.trajectories[-1].id, group.trajectories[-1].completion) == (
            plain.trajectories[-1].id,
            plain.trajectories[-1].completion,
        )
    with pytest.raises(UserError, match=r"MixedPolicy\.source"):
        MixedPolicy(source="book")


def test_a_solution_that_is_wrong_is_told_so():
    for group in groups_of(MixedPolicy(), 2, solution="g"):
        assert group.trajectories[-1].value == TOY.verify(group.trajectories[-1].problem, "g")
    assert {g.trajectories[-1].value for g in groups_of(MixedPolicy(), 2, solution="")} == {0.0}


def test_a_group_of_one_keeps_its_sample():
    assert [[t.source for t in g.trajectories] for g in groups_of(MixedPolicy(), 1)] == [["policy", "expert"]] * 2


def test_a_problem_without_solution_is_named():
    with pytest.raises(UserError, match='problem toy/0 has no "solution"'):
        groups_of(MixedPolicy(), 2, solution=None)


def test_a_demonstrated_episode_stands_as_it_was_played():
    from gradus.testing.methods import scripted_world

    task = frozen_lake(level=1)
    (problem,) = task.source.draw([0], 1, Key())
    world, _ = scripted_world(task, lambda ask: "up")
    (group,) = asyncio.run(MixedPolicy().run([Request(problem, count=3)], world))
    assert [t.source for t in group.trajectories] == ["policy", "policy", "expert"]
    assert group.trajectories[-1].value == 1.0


def test_a_rollout_that_samples_on_stands_around_it_and_not_inside():
    def groups(rollout):
        world = toy_run(reinforce).at(0)[1]
        return asyncio.run(rollout.run(asyncio.run(world.more(2)), world))

    with pytest.raises(UserError, match="make MixedPolicy the inner rollout: --rollout"):
        groups(MixedPolicy(DynamicSampling(until=Never())))
    found = groups(DynamicSampling(MixedPolicy(), until=Never(), rounds=3))
    assert [[t.source for t in g.trajectories][-1] for g in found] == ["expert"] * 6
