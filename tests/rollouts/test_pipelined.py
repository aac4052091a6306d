"""Pipelined: equal trajectories for any number of parts, one call per sub-batch, and two stages that work at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import gradus
from gradus.players.build import build_players
from gradus.recipe.registry import recipe
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.lanes import Lanes
from gradus.rollouts.pipelined import Pipelined
from gradus.tasks.control.reacher import Reacher, reacher
from gradus.testing.methods import TOY, TOY_EPISODES, scripted_world
from gradus.training.memory import Memory
from gradus.training.world import RunWorld
from gradus.types import Group, Key, Request, Sampling, UserError
from gradus.types.environments import Closing, Forkable, Restorable


@dataclass(frozen=True)
class Counted(Reacher):
    """The arm with `step_many`, which notes the number of episodes of every call, and what else happens during the call."""

    log: list[Any] = field(default_factory=list, compare=False)
    wrong: int = 0  # turns that are missing from every answer

    async def step_many(self, episodes: Any, actions: Any) -> list[Any]:
        self.log.append(("steps", len(episodes)))
        for _ in range(20):  # time for the policy
            await asyncio.sleep(0)
        self.log.append(("stepped", len(episodes)))
        found = [await e.step(a) for e, a in zip(episodes, actions, strict=True)]
        return found[: len(found) - self.wrong]


@dataclass(frozen=True)
class Failing(Reacher):
    async def step_many(self, episodes: Any, actions: Any) -> list[Any]:
        raise RuntimeError("the simulator broke")


def played(rollout: Any, environment: Any, count: int = 4, group: int = 1) -> list[Group]:
    task = replace(reacher(), environment=environment)
    made = recipe("rlinf_vla")
    players = build_players(made, None, task, Key(3))
    world = RunWorld(step=0, purpose="train", seed=Key(3), task=task, players=players, reward=made.reward, sampling=Sampling(), group=group)
    if isinstance(environment, Counted):
        act = players["policy"].policy.act
        players["policy"].policy.act = lambda asked: (environment.log.append(("sampled", len(asked))), act(asked))[1]
    requests = [Request(p, count=group) for p in task.source.draw(list(range(count)), None, world.key)]
    groups: list[Group] = asyncio.run(Memory().call("rollout", rollout, "run", requests, world))
    return groups


def facts(groups: list[Group]) -> list[Any]:
    return [(g.key, t.id, t.value, [c.tokens.tolist() for c in t.contexts]) for g in groups for t in g.trajectories]


@pytest.mark.parametrize("inner", [Lanes(5), Episodes()])
def test_the_trajectories_are_the_same_for_any_number_of_parts(inner):
    due = facts(played(inner, Reacher(), group=2))
    for parts in (1, 2, 3):
        assert facts(played(Pipelined(inner, parts), Reacher(), group=2)) == due
    assert facts(played(Pipelined(inner, 2), Counted(), group=2)) == due


def test_a_sub_batch_is_sampled_and_stepped_in_one_call_while_the_other_part_works():
    environment = Counted(limit=400)
    played(Pipelined(Lanes(3), 2), environment, count=6)
    log = environment.log
    assert {n for what, n in log if what == "steps"} == {3}
    assert sum(n for what, n in log if what == "steps") == 18  # six lanes of three turns
    assert [n for what, n in log if what == "sampled"] == [3] * 6
    overlaps = sum(log[i][0] == "steps" and log[i + 1][0] == "sampled" for i in range(len(log) - 1))
    assert overlaps >= 4  # all but the last: while one half is stepped, the other half is sampled
    alone = Counted(limit=400)
    played(Pipelined(Lanes(3), 1), alone, count=6)
    assert alone.log == [("sampled", 6), ("steps", 6), ("stepped", 6)] * 3


def test_a_failure_of_the_simulator_fails_its_episodes():
    groups = played(Pipelined(Lanes(3), 2), Failing())
    assert [t.failed for g in groups for t in g.trajectories] == [groups[0].trajectories[0].failed] * 4
    assert "the simulator broke" in groups[0].trajectories[0].failed
    with pytest.raises(UserError, match=r"step_many got 2 episodes and returned 1 turns"):
        played(Pipelined(Lanes(3), 2), Counted(wrong=1))


class Kept:
    """An episode that must be closed, and cannot be copied."""

    def __init__(self, first: Any, log: list[str]) -> None:
        self.first, self.log = first, log

    async def step(self, action: Any) -> Any:
        self.log.append(str(action))
        return replace(self.first, terminated=True, reward=1.0)

    async def close(self) -> None:
        self.log.append("closed")


@dataclass(frozen=True)
class Opened:
    """A world of text whose start is a coroutine."""

    log: list[str] = field(default_factory=list, compare=False)

    async def start(self, problem: Any, key: Any, world: Any) -> Kept:
        await asyncio.sleep(0)
        return Kept(gradus.types.parts.Turn("a"), self.log)


def test_episodes_keep_their_abilities():
    environment = Opened()
    world, _ = scripted_world(replace(TOY_EPISODES, environment=environment), lambda ask: "b")
    (group,) = asyncio.run(Pipelined(Episodes(), 2).run([Request(TOY.source.draw([0], None, Key())[0], count=2)], world))
    assert sorted(environment.log) == ["b", "b", "closed", "closed"]
    assert [t.links["return"] for t in group.trajectories] == [1.0, 1.0]

    from gradus.rollouts.pipelined import _Staged, staged_episode

    async def abilities() -> None:
        task = replace(reacher(), environment=Reacher())
        arm, _ = scripted_world(task, lambda ask: "b")
        (problem,) = task.source.draw([0], None, Key())
        staged = _Staged(arm, 2)
        episode = staged.task.environment.start(problem, Key(), arm)
        assert isinstance(episode, Forkable)
        assert isinstance(episode, Restorable)
        assert not isinstance(episode, Closing)
        copy = episode.fork(Key())
        snapshot = episode.snapshot()
        turn = await copy.step([[0.1, 0.2]] * 4)  # the copy passes through the stage, too
        assert turn.steps == (0.0,) * 4
        copy.restore(snapshot)
        assert copy.snapshot()["steps"] == 0
        assert isinstance(staged_episode(Kept(None, []), staged), Closing)

    asyncio.run(abilities())


def test_a_task_of_one_turn_is_refused_and_a_test_has_no_parts():
    world, _ = scripted_world(TOY, lambda ask: "b")
    with pytest.raises(UserError, match="has no environment"):
        asyncio.run(Pipelined(Episodes()).run([Request(TOY.source.draw([0], None, Key())[0])], world))
    assert Pipelined(Lanes(7)).test == Lanes(7).test
    assert Pipelined(Episodes(3)).test == Episodes(3)
    with pytest.raises(UserError, match="parts"):
        Pipelined(parts=0)
    with pytest.raises(UserError, match="shows text"):
        Pipelined(Lanes()).check_task(TOY_EPISODES)
