"""Generated samples: what is kept of them, by which sampler, and what is refused."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.papers.bases.flow_grpo import flow_grpo
from gradus.rollouts.flow_sampling import FinishedSamples, FlowSampling
from gradus.tasks.flow.flow_2d import near
from gradus.testing.methods import toy_run
from gradus.types import Key, UserError
from gradus.types.parts import Task
from gradus.types.samplers import Ode, Sde


def roll(rollout):
    run = toy_run(flow_grpo.but(rollout=rollout))
    world = run.world(run.recipe, "train")
    task: Task = run.task
    requests = [r for p in task.source.draw([0, 1], None, Key(0)) for r in [_request(p)]]
    return asyncio.run(rollout.run(requests, world))


def _request(problem):
    from gradus.types import Request

    return Request(problem, count=3)


def test_steps_are_actions():
    groups = roll(FlowSampling(Sde(4)))
    assert [[t.actions for t in g.trajectories] for g in groups] == [[4, 4, 4], [4, 4, 4]]
    for trajectory in (t for g in groups for t in g.trajectories):
        (context,) = trajectory.contexts
        streams = context.streams
        assert context.logprobs.shape == (4,)
        assert np.array_equal(streams["next"][:-1], streams["latent"][1:])  # each step goes on where the one before it ended
        assert np.array_equal(streams["sample"], np.repeat(streams["next"][-1:], 4, 0))
        assert streams["time"].tolist() == [1.0, 0.75, 0.5, 0.25]
        assert trajectory.value == near(trajectory) > 0


def test_a_sample_is_one_action_and_what_is_stored_does_not_grow_with_the_steps():
    sizes = []
    for steps in (2, 50):
        (context,) = roll(FinishedSamples(Sde(steps)))[0].trajectories[0].contexts
        assert (context.actions, context.logprobs, list(context.streams)) == (1, None, ["sample", "condition", "key"])
        sizes.append(sum(a.nbytes for a in (context.tokens, context.chosen, context.versions, *context.streams.values())))
    assert sizes[0] == sizes[1]


def test_what_is_kept_does_not_change_the_sample():
    kept, plain = (roll(rollout(Sde(4))) for rollout in (FlowSampling, FinishedSamples))
    for a, b in zip(kept[0].trajectories, plain[0].trajectories, strict=True):
        assert np.array_equal(a.stream("sample")[-1:], b.stream("sample"))


def test_evaluation_has_its_own_sampler_and_keeps_samples_alone():
    assert FlowSampling(Sde(10), at_test=Ode(40)).test == FinishedSamples(Ode(40), None)
    assert FinishedSamples(Ode(3)).test == FinishedSamples(Ode(40), None)
    assert FlowSampling(Sde(10), at_test=None).test == FinishedSamples(Sde(10), None)


def test_steps_that_choose_nothing_cannot_be_kept():
    with pytest.raises(UserError, match=r"Ode\(steps=5\) takes no random step"):
        roll(FlowSampling(Ode(5)))
