"""Environments of gymnasium for controllers: the package's own numbers, ends and spaces."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import gradus
from gradus.tasks.packages.gymnasium import task
from gradus.tasks.packages.gymnasium_arrays import acts_of, named, taken
from gradus.types import Key, UserError
from gradus.types.spaces import Box, Choice

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces


def begun(name: str, key: Key = Key(3), **options):
    made = task(name, arrays=True, **options)
    (problem,) = made.source.draw([0], None, Key())
    return made, problem, made.environment.start(problem, key, None)


@pytest.mark.parametrize(("name", "actions"), [("CartPole-v1", [0, 1, 1, 0, 1] * 60), ("Pendulum-v1", [np.array([u], np.float32) for u in np.sin(np.arange(200))])])
def test_it_plays_as_the_package_alone(name, actions):
    made, problem, play = begun(name)
    env = gymnasium.make(name)
    first, _ = env.reset(seed=Key(3).fold("start", problem.meta["seed"]).value % 2**31)
    assert play.first.observation["state"].tobytes() == np.asarray(first, np.float32).tobytes()
    for action in actions:
        shown, reward, terminated, truncated, _ = env.step(action)
        turn = asyncio.run(play.step(action))
        assert turn.observation["state"].tobytes() == np.asarray(shown, np.float32).tobytes()
        assert (turn.reward, turn.terminated, turn.truncated) == (float(reward), terminated, truncated and not terminated)
        if terminated or truncated:
            break
    assert turn.terminated is (name == "CartPole-v1")
    assert turn.truncated is (name == "Pendulum-v1")  # 200 steps: the package's own limit
    assert made.environment.shows == {"array"}


def test_a_limit_truncates_and_an_illegal_action_moves_nothing():
    _, _, play = begun("CartPole-v1", limit=2)
    wrong = asyncio.run(play.step("up"))
    assert not wrong.valid
    assert not wrong.truncated
    last = asyncio.run(play.step("1"))
    assert last.truncated
    assert not last.terminated


def test_spaces():
    assert acts_of("w", spaces.Discrete(3, start=1)) == Choice(("1", "2", "3"))
    assert taken(spaces.Discrete(3, start=1), Choice(("1", "2", "3")), 0) == 1
    box = spaces.Box(-1, 2, (2,))
    assert acts_of("w", box) == Box((-1.0, -1.0), (2.0, 2.0))
    assert taken(box, acts_of("w", box), np.array([5.0, 0.5])).tolist() == [2.0, 0.5]
    assert taken(box, acts_of("w", box), "left") is None
    assert named("w", spaces.Discrete(3), 1)["state"].tolist() == [0, 1, 0]
    both = spaces.Dict(place=spaces.Box(-1, 1, (2,)), kind=spaces.Discrete(2))
    found = named("w", both, {"place": np.zeros(2), "kind": 1})
    assert {n: a.tolist() for n, a in found.items()} == {"place": [0, 0], "kind": [0, 1]}
    assert named("w", spaces.Box(0, 255, (2, 2, 3), np.uint8), np.zeros((2, 2, 3), np.uint8))["state"].dtype == np.uint8
    for wrong in (spaces.MultiDiscrete([2, 2]), spaces.Box(-np.inf, np.inf, (1,)), spaces.Box(-1, 1, (2, 2))):
        with pytest.raises(UserError, match="which no controller can produce"):
            acts_of("w", wrong)
    with pytest.raises(UserError, match="which is not an array"):
        named("w", spaces.Text(3), "abc")
    with pytest.raises(UserError, match="leave out `arrays` or `text`"):
        task("CartPole-v1", text="f.py:g", arrays=True)


def test_a_controller_trains_in_it():
    small = {"rollout__length": 8, "selection__warmup": 8, "selection__batch": 4, "study": None, "setting__eval_every": 0}
    run = gradus.train("sac", task="gymnasium:Pendulum-v1", task_options={"arrays": "yes"}, steps=3, **small)
    assert run.players["critic"].updates == 16
    assert run.memory.states["rollout"]["state"]["lanes"][0]["snapshot"] is None  # its episodes are played again from their actions
