"""Micro-batches that are judged while others are sampled: the update of one batch, the order, free judges, errors."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.streamed import Streamed
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import TOY, check_same_update, scripted_world
from gradus.types import Request, UserError
from gradus.types.parts import Judgement


@pytest.mark.parametrize("rollout", [Streamed(1, 3), Streamed(3, 1), Streamed(100, 2)])
def test_the_update_is_that_of_one_batch(rollout):
    check_same_update(reinforce.but(rollout=rollout), reinforce, steps=3)


@dataclass(frozen=True)
class Listening:
    """A reward that keeps the numbers of the groups of each call. The first call waits until the `until`-th call has ended."""

    until: int
    calls: tuple = ([], [])  # begun, ended
    needs = ()

    async def score(self, groups, signals, world):
        begun, ended = self.calls
        mine = [int(g.trajectories[0].problem.id.split("/")[-1]) for g in groups]
        begun.append(mine)
        while mine[0] == 0 and len(ended) < self.until:
            await asyncio.sleep(0)
        ended.append(mine)
        return [[Judgement(1.0) for _ in g.trajectories] for g in groups]


def played(rollout, reward, count=6):
    world, _ = scripted_world(TOY, lambda ask: "b", reward=reward)
    requests = [Request(p, count=2) for p in TOY.source.draw(list(range(count)), None, world.key)]
    groups = asyncio.run(rollout.run(requests, world))
    assert [g.trajectories[0].problem.id for g in groups] == [r.problem.id for r in requests]
    assert all(t.value == 1 for g in groups for t in g.trajectories)


def test_a_slow_reward_stops_only_its_own_micro_batch():
    reward = Listening(until=2, calls=([], []))
    played(Streamed(2, 2), reward)
    assert reward.calls[0][0] == [0, 1]
    assert reward.calls[1] == [[2, 3], [4, 5], [0, 1]]


def test_a_micro_batch_is_judged_before_the_last_one_is_sampled():
    reward, heard = Listening(until=0, calls=([], [])), []
    world, _ = scripted_world(TOY, lambda ask: heard.append(len(reward.calls[0])) or "b", reward=reward)
    requests = [Request(p, count=1) for p in TOY.source.draw(list(range(6)), None, world.key)]
    asyncio.run(Streamed(2, 1).run(requests, world))
    assert heard[0] == heard[1] == 0
    assert heard[-1] >= 1


def test_an_error_ends_the_rollout():
    @dataclass(frozen=True)
    class Broken:
        needs = ()

        async def score(self, groups, signals, world):
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        played(Streamed(1, 2), Broken())


def test_no_requests_and_an_environment():
    world, _ = scripted_world(TOY, lambda ask: "b", reward=Listening(0))
    assert asyncio.run(Streamed().run([], world)) == []
    world, _ = scripted_world(replace(TOY, environment=FrozenLake()), lambda ask: "x")
    with pytest.raises(UserError, match="answers of one turn"):
        asyncio.run(Streamed().run([], world))


def test_a_reward_with_a_state_is_refused():
    class Remembering(Listening):
        def start(self):
            return {}

    with pytest.raises(UserError, match="Remembering has a state; set --rollout SingleTurn"):
        played(Streamed(), Remembering(0))
