"""The rollout that suits the task."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

from gradus.rollouts.auto import Auto
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.single_turn import SingleTurn
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.testing.methods import TOY, scripted_world
from gradus.types import Key, Problem, Request
from tests.rollouts.test_episodes import Line, LineEpisode


def outcome(rollout, task, requests, says):
    world, _ = scripted_world(task, says)
    (group,) = asyncio.run(rollout.run(requests, world))
    return [(t.id, t.completion, t.ended, [c.sequence.tolist() for c in t.contexts]) for t in group.trajectories]


def test_one_turn_where_the_task_only_verifies():
    requests = [Request(Problem("p", "toy", text="q"), count=2)]
    task = replace(TOY, environment=None)
    assert outcome(Auto(), task, requests, lambda ask: "said") == outcome(SingleTurn(), task, requests, lambda ask: "said")


def test_an_episode_where_the_task_has_an_environment():
    task = frozen_lake()
    requests = [Request(task.source.draw([0], task.level, Key())[0], count=2)]
    found = outcome(Auto(max_turns=3, history=1), task, requests, lambda ask: "left")
    assert found == outcome(Episodes(3, 1), task, requests, lambda ask: "left")
    assert len(found[0][3]) > 1  # a context a turn


def test_the_limit_of_a_turn_reaches_the_episodes():
    class Slow(LineEpisode):
        async def step(self, action):
            await asyncio.sleep(60)

    task = replace(TOY, environment=SimpleNamespace(start=lambda problem, key, world: Slow(Line([]))))
    world, _ = scripted_world(task, lambda ask: "a")
    (group,) = asyncio.run(Auto(timeout=0.05).run([Request(Problem("p", "toy", ({"role": "user", "content": "go"},)))], world))
    assert group.trajectories[0].failed == "the environment did not answer within 0.05 seconds"
