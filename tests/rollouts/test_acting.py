"""The rollout that suits the task."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gradus.rollouts.acting import Acting
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.single import Single
from gradus.tasks.frozen_lake import frozen_lake
from gradus.types import Key, Problem, Request
from tests.scripted import scripted_world
from tests.toy import TOY


def outcome(rollout, task, requests, says):
    world, _ = scripted_world(task, says)
    (group,) = asyncio.run(rollout.run(requests, world))
    return [(t.id, t.completion, t.ended, [c.sequence.tolist() for c in t.contexts]) for t in group.trajectories]


def test_one_turn_where_the_task_only_verifies():
    requests = [Request(Problem("p", "toy", text="q"), count=2)]
    task = replace(TOY, environment=None)
    assert outcome(Acting(), task, requests, lambda ask: "said") == outcome(Single(), task, requests, lambda ask: "said")


def test_an_episode_where_the_task_has_an_environment():
    task = frozen_lake()
    requests = [Request(task.source.draw([0], task.level, Key())[0], count=2)]
    found = outcome(Acting(max_turns=3, history=1), task, requests, lambda ask: "left")
    assert found == outcome(Episodes(3, 1), task, requests, lambda ask: "left")
    assert len(found[0][3]) > 1  # a context a turn
