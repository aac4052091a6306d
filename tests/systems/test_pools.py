"""Environments and verifiers in other processes: the turns and verdicts are those of this process, whichever message a process ends at."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from gradus.rewards.verified import Verified
from gradus.runtime.time_limit import Late
from gradus.runtime.user_code import load_object
from gradus.systems.hosts import MOST, Host
from gradus.systems.pools import Pool, digest, pooled_environment, pooled_verifiers, sendable
from gradus.systems.task_worker import TaskWorker
from gradus.training.plan import load_task
from gradus.types import Failed, FailureKind, Key, Media, UserError
from gradus.types.errors import RaisedElsewhere
from gradus.types.parts import Apart, Closing, Forkable, Together
from tests.systems.near import openings

ACTIONS = ("right", "down", "nonsense", "left", "up")


def pool_for(links, ends=(), count=1):
    """A maker of pools whose processes are workers in this process. `ends`: for each process, where it ends."""

    def pool_of(first):
        opened, found = openings(TaskWorker, ends)
        links.append(found)
        return Pool([Host(f"process {i}", opened, lambda: [("begin", json.loads(json.dumps(first)))], lambda text: None) for i in range(count)])

    return pool_of


def lake(show="text", slip="0.5"):
    task = load_task("frozen_lake", {"slip": slip, "show": show})
    (problem,) = task.source.draw([3], task.level, Key(1))
    return task, problem


async def played(environment, problem, key=Key(5), actions=ACTIONS):
    episode = environment.start(problem, key, None)
    episode = await episode if asyncio.iscoroutine(episode) else episode
    turns = [episode.first, *[await episode.step(action) for action in actions]]
    if isinstance(episode, Closing):
        await episode.close()
    return turns


def same_turns(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        if isinstance(a.observation, dict):
            assert {n: (v.dtype, v.tolist()) for n, v in a.observation.items()} == {n: (v.dtype, v.tolist()) for n, v in b.observation.items()}
        elif isinstance(a.observation, str):
            assert a.observation == b.observation
        else:
            assert [dict(m) for m in a.observation] == [{**m} for m in b.observation]
        assert (a.reward, a.terminated, a.truncated, a.player, a.state, a.valid) == (b.reward, b.terminated, b.truncated, b.player, b.state, b.valid)


@pytest.mark.parametrize("ends", [[]] + [[{at: how}] for at in range(7) for how in ("before", "after")] + [[{3: "after"}, {4: "before"}, {2: "after"}]])
def test_an_episode_whose_process_ends_is_played_again(ends):
    task, problem = lake()
    links: list = []
    moved, pool = pooled_environment(task, pool_for(links, ends))
    same_turns(asyncio.run(played(task.environment, problem)), asyncio.run(played(moved.environment, problem)))
    last = links[0][-1]
    assert len(links[0]) == len(ends) + 1
    assert last.asked == ["begin", "start", *["step"] * 5, "end"] or ends[-1:] in ([{6: "after"}], [{6: "before"}])
    assert not last.worker.episodes  # the episode is closed and forgotten
    assert pool.load == [0]
    assert moved.environment.together is None if hasattr(task.environment, "together") else not hasattr(moved.environment, "together")


@pytest.mark.parametrize("show", ["array", "image"])
def test_observations_of_arrays_and_pictures_stay_as_they_are(show):
    task, problem = lake(show)
    moved, _ = pooled_environment(task, pool_for([]))
    same_turns(asyncio.run(played(task.environment, problem)), asyncio.run(played(moved.environment, problem)))
    assert moved.showing == task.showing
    assert moved.acting == task.acting


@pytest.mark.parametrize("ends", [[], [{4: "after"}], [{5: "before"}, {6: "after"}]])
def test_a_copy_of_an_episode_has_its_own_draws(ends):
    task, problem = lake()
    links: list = []
    moved, _ = pooled_environment(task, pool_for(links, ends))

    async def forked(environment):
        episode = environment.start(problem, Key(5), None)
        episode = await episode if asyncio.iscoroutine(episode) else episode
        assert isinstance(episode, Forkable)
        turns = [await episode.step("right")]
        copy = episode.fork(Key(77))
        turns += [await copy.step(a) for a in ("down", "down")]
        turns += [await episode.step(a) for a in ("down", "down")]
        again = copy.fork(Key(78))
        return [*turns, await again.step("left")]

    same_turns(asyncio.run(forked(task.environment)), asyncio.run(forked(moved.environment)))


def test_episodes_go_to_the_process_with_the_fewest(tmp_path):
    task, problem = lake()
    links: list = []
    moved, pool = pooled_environment(task, pool_for(links, count=2))

    async def several():
        first = await moved.environment.start(problem, Key(1), None)
        second = await moved.environment.start(problem, Key(2), None)
        loads = [list(pool.load)]
        await first.close()
        third = await moved.environment.start(problem, Key(3), None)
        return [e._host for e in (first, second, third)], [*loads, list(pool.load)]

    assert asyncio.run(several()) == ([0, 1, 0], [[1, 1], [1, 1]])


OWN = '''
from dataclasses import dataclass, field
from typing import Any
from gradus.types.parts import Turn
COUNT = [0]

@dataclass(frozen=True)
class Odd:
    """What an environment may do wrong. `way` is one of the branches below."""
    way: str = ""
    def start(self, problem, key, world):
        if self.way == "world":
            world.sample([])
        return Episode(self.way)

class Episode:
    def __init__(self, way):
        self.way, self.first = way, Turn("go")
        if way == "joint":
            self.acting = self.step_all = lambda *_: None
    async def step(self, action):
        COUNT[0] += 1
        if self.way == "raises":
            raise KeyError("lost key")
        if self.way == "clock":
            return Turn(f"call {COUNT[0]}")
        if self.way == "info":
            return Turn("same", info={"call": COUNT[0]})
        if self.way == "no turn":
            return "text"
        return Turn("went")

@dataclass(frozen=True)
class Holder:
    """Cannot be stored."""
    held: Any = field(default_factory=object)
    def start(self, problem, key, world): ...
'''


def odd(tmp_path, way, name="Odd"):
    (tmp_path / "odd.py").write_text(OWN)
    made = load_object(f"{tmp_path / 'odd.py'}:{name}", "part")
    task, problem = lake()
    object.__setattr__(task, "environment", made(way) if name == "Odd" else made())
    return task, problem


@pytest.mark.parametrize(
    ("way", "kind", "text"),
    [
        ("world", UserError, "Odd uses world.sample, which exists only in the training process; leave out --system.environments"),
        ("joint", UserError, "several seats of Odd act at the same time, which works only in one process"),
        ("raises", RaisedElsewhere, r"^KeyError: 'lost key' \(odd.py, line 24\)$"),
        ("clock", RaisedElsewhere, "cannot be played again: turn 0 differs from the first time"),
    ],
)
def test_an_environment_that_does_not_fit_is_named(way, kind, text, tmp_path):
    task, problem = odd(tmp_path, way)
    moved, _ = pooled_environment(task, pool_for([], [{3: "before"}] if way == "clock" else []))
    with pytest.raises(kind, match=text):
        asyncio.run(played(moved.environment, problem, actions=("a", "b")))


def test_a_failure_has_the_words_of_one_process(tmp_path):
    from gradus.rollouts.environment_calls import stepped

    async def failed(environment, problem):
        episode = environment.start(problem, Key(5), None)
        episode = await episode if asyncio.iscoroutine(episode) else episode
        return await stepped(episode, "a", ("policy",), 60.0)

    task, problem = odd(tmp_path, "raises")
    moved, _ = pooled_environment(task, pool_for([]))
    found = asyncio.run(failed(moved.environment, problem))
    assert "lost key" in found.reason
    assert found == asyncio.run(failed(task.environment, problem))


def test_notes_for_people_may_differ_and_odd_answers_reach_the_rollout(tmp_path):
    task, problem = odd(tmp_path, "info")
    moved, _ = pooled_environment(task, pool_for([], [{3: "before"}]))
    assert [turn.observation for turn in asyncio.run(played(moved.environment, problem, actions=("a", "b")))] == ["go", "same", "same"]
    task, problem = odd(tmp_path, "no turn")
    moved, _ = pooled_environment(task, pool_for([]))
    assert asyncio.run(played(moved.environment, problem, actions=("a",)))[1] == "a str"


def test_tasks_that_cannot_be_moved_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"the environment of task frozen_lake cannot be made in another process: .* leave out --system.environments"):
        pooled_environment(odd(tmp_path, "", "Holder")[0], pool_for([]))
    with pytest.raises(UserError, match="`environments` is set, but task arithmetic has no environment"):
        pooled_environment(load_task("arithmetic"), pool_for([]))
    with pytest.raises(UserError, match="`verifiers` is set, but task frozen_lake has no verifier"):
        pooled_verifiers(lake()[0], pool_for([]))
    with pytest.raises(UserError, match="the verifier of task planning cannot be made in another process: a method"):
        pooled_verifiers(load_task("planning"), pool_for([]))
    with pytest.raises(UserError, match="judges with a verifier that has its own processes"):
        pooled_verifiers(load_task("code"), pool_for([]))
    with pytest.raises(UserError, match="problem 7 cannot be sent to another process"):
        sendable({"answer": object()}, "problem 7")


def answers(task, texts):
    from gradus.types import Trajectory

    (problem,) = task.source.draw([0], task.level, Key())
    return [Trajectory(id=str(i), problem=problem, contexts=(), completion=text) for i, text in enumerate(texts)]


@pytest.mark.parametrize("ends", [[], [{1: "before"}], [{2: "after"}, {1: "before"}]])
def test_verdicts_are_those_of_this_process(ends):
    task = load_task("arithmetic")
    links: list = []
    moved, pool = pooled_verifiers(task, pool_for(links, ends))
    trajectories = answers(task, ["1", "x", ""])
    trajectories.append(answers(task, [f"={trajectories[0].problem.answer}"])[0])
    found = asyncio.run(moved.verify.apart(trajectories, 60.0, 0))
    assert found == [task.verify(t.problem, t.completion) for t in trajectories]
    assert found[3] == 1.0
    assert found[1] == 0.0
    assert isinstance(moved.verify, Apart)
    assert not isinstance(moved.verify, Together)
    assert moved.verify(trajectories[3].problem, trajectories[3].completion) == 1.0
    assert len(links[0]) == len(ends) + 1
    assert pool.load == [0]


def test_a_late_verdict_is_asked_again_and_then_fails():
    task = load_task("arithmetic")
    links: list = []
    moved, pool = pooled_verifiers(task, pool_for(links))
    opened = pool.hosts[0].opened

    def late():
        link = opened()
        link.late = True
        return link

    pool.hosts[0].opened = late
    (found,) = asyncio.run(moved.verify.apart(answers(task, ["1"]), 0.5, 2))
    assert found == Failed("did not answer within 0.5 seconds, the limit that --reward.timeout sets (3 attempts)", FailureKind.TIMEOUT)
    assert len(links[0]) == 3


def test_a_mixture_has_a_pool_for_each_verifier_that_can_move():
    task = load_task("arithmetic:1,countdown:1")
    links: list = []
    moved, _ = pooled_verifiers(task, pool_for(links))
    problems = task.source.draw(range(6), task.level, Key())
    for problem in problems:
        verify = moved.verify.of(problem)
        assert isinstance(verify, Apart)
        trajectory = answers(load_task("arithmetic"), ["17"])[0]
        trajectory = type(trajectory)(id="a", problem=problem, contexts=(), completion="17")
        assert asyncio.run(verify.apart([trajectory], 60.0, 0)) == [task.verify(problem, "17")]
    assert len(moved.verify.all()) == 2
    assert {p.task for p in problems} == {"arithmetic", "countdown"}
    Verified().check(moved)


def test_a_cancelled_wait_ends_the_process():
    task, problem = lake()
    links: list = []
    moved, pool = pooled_environment(task, pool_for(links))

    async def cancelled():
        started = asyncio.Event()

        def work(tell):
            loop.call_soon_threadsafe(started.set)
            gate.wait(20)
            return tell("end", {"episode": 1})

        import threading

        loop, gate = asyncio.get_running_loop(), threading.Event()
        waiting = asyncio.ensure_future(pool.ask(0, work))
        await started.wait()
        behind = asyncio.ensure_future(pool.ask(0, lambda tell: "never"))
        await asyncio.sleep(0)
        behind.cancel()  # has not begun, so it ends no process
        await asyncio.wait([behind])
        late = pool.ask(0, lambda tell: "never")
        late.send(None)
        with pytest.raises(Late):
            late.throw(Late())  # as at the time limit of the environment
        assert not links[0][0].closed
        waiting.cancel()
        await asyncio.wait([waiting])
        assert links[0][0].closed
        gate.set()
        return await played(moved.environment, problem)  # the next question starts another process

    same_turns(asyncio.run(played(task.environment, problem)), asyncio.run(cancelled()))
    assert len(links[0]) == 2
    pool.close()
    assert MOST > 1


def test_a_digest_leaves_out_the_notes_only():
    turn = {"map": {"observation": "a", "info": {"map": {"x": 1}}}}
    assert digest(turn) == digest({"map": {"observation": "a", "info": {"map": {}}}})
    assert digest(turn) != digest({"map": {"observation": "b", "info": {"map": {"x": 1}}}})
    assert digest(None) != digest(turn)


def test_arrays_and_pictures_are_packed_as_they_are():
    from gradus.types.packing import packed, unpacked

    for array in (np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros((0, 2), np.float32), np.array(1.5), np.asfortranarray(np.arange(4.0).reshape(2, 2))):
        back = unpacked(json.loads(json.dumps(packed({"x": array}))))["x"]
        assert (back.dtype, back.shape, back.tolist()) == (array.dtype, array.shape, array.tolist())
        back += 1  # writable
    picture = Media("image", np.zeros((2, 2, 3), np.uint8))
    assert unpacked(json.loads(json.dumps(packed(picture)))) == picture
