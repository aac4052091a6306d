"""Environments of the package gymnasium: contract, text forms, and the same turns as the package alone."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import numpy as np
import pytest

import gradus
from gradus.tasks.packages import gymnasium as adapter
from gradus.tasks.packages.gymnasium import Gymnasium, names, task
from gradus.testing import Effort, check_task
from gradus.training.plan import Plan, load_task, plan
from gradus.types import Frozen, Key, Problem, UserError

gymnasium = pytest.importorskip("gymnasium")
MINIGRID = [f"minigrid:MiniGrid-{name}-v0" for name in ("Empty-5x5", "DoorKey-5x5", "GoToDoor-6x6")]
IDS = ("FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "Taxi-v4", "Blackjack-v1", "CartPole-v1", *MINIGRID)


def made(name, **options):
    if ":" in name:
        pytest.importorskip(name.partition(":")[0])
    return task(name, **options)


def played(name, actions, seed=7, key=Key(3), **options):
    """The turns of an episode of these replies, up to its end."""
    problem = Problem("p", name, text="?", meta=Frozen(seed=seed))
    play = made(name, **options).environment.start(problem, key, None)
    turns = [play.first]
    for action in actions:
        turns.append(asyncio.run(play.step(action)))
        if turns[-1].terminated or turns[-1].truncated:
            break
    return turns


@pytest.mark.parametrize("name", IDS)
def test_the_contract_holds(name):
    check_task(made(name), effort=Effort(problems=5, texts=60), strict=True)


@pytest.mark.parametrize("name", IDS)
def test_turns_are_those_of_the_package(name):
    """A hundred random actions, played here by words and there by numbers: the same observations, rewards and ends."""
    settings = made(name).environment
    env = gymnasium.make(name)
    form = settings.form(env)
    for seed in range(5):
        key = Key(seed).fold("episode")
        chosen = [int(a) for a in Key(seed).permutation(100) % env.action_space.n]
        turns = played(name, [f"I take {form.words[a]}." for a in chosen], seed=seed, key=key)
        observation, _ = env.reset(seed=seed)
        env.unwrapped.np_random = np.random.default_rng(key.value)
        assert turns[0].observation == form.say(observation, env.unwrapped)
        for turn, action in zip(turns[1:], chosen, strict=False):
            observation, reward, terminated, truncated, _ = env.step(action)
            assert turn.valid
            assert (turn.observation, turn.reward, turn.terminated) == (form.say(observation, env.unwrapped), float(reward), terminated)
        assert terminated or truncated or len(turns) == 101


def test_the_shortest_way_over_the_lake_wins():
    way = ["down", "Down!", "I go right", "right", "down", "right"]
    turns = played("FrozenLake-v1", way, config="is_slippery=false")
    assert [t.reward for t in turns] == [0, 0, 0, 0, 0, 0, 1]
    assert turns[-1].terminated
    assert [t.observation.replace("\n", "/") for t in turns[:2]] == ["PFFF/FHFH/FFFH/HFFG", "SFFF/PHFH/FFFH/HFFG"]
    assert turns[1].state == turns[1].observation  # the shown lake is the whole state


def test_key_and_seed_decide_ends_and_starts():
    slips = {tuple(t.observation for t in played("FrozenLake-v1", ["right"] * 9, key=Key(k))) for k in range(8)}
    assert len(slips) > 2
    assert len({played("Taxi-v4", [], seed=seed)[0].observation for seed in range(20)}) > 15
    assert len({played("Taxi-v4", [], seed=5, key=Key(k))[0].observation for k in range(9)}) == 1  # the samples of a group start alike


def test_a_reply_without_an_action_uses_up_a_turn():
    turns = played("CliffWalking-v1", ["I do not know", "up or left? right", ""], limit=3)
    assert [t.valid for t in turns[1:]] == [False, True, False]
    assert turns[1].observation.startswith("no action: Walk from S to G")
    assert turns[1].observation.endswith(turns[0].observation)
    assert turns[2].reward == -100  # the last word counts: right, down the cliff
    assert [t.truncated for t in turns[1:]] == [False, False, True]


def test_success_makes_a_return_right_or_wrong():
    way = ["up", *["right"] * 11, "down"]
    assert sum(t.reward for t in played("CliffWalking-v1", way)) == -13
    assert [t.reward for t in played("CliffWalking-v1", way, success=-13)] == [0] * 13 + [1]
    assert {t.reward for t in played("CliffWalking-v1", way, success=-12)} == {0}


def test_the_limit_is_the_environments_else_a_hundred():
    assert [made(n).environment.limit for n in ("Taxi-v4", "Blackjack-v1", MINIGRID[0])] == [200, 100, 100]
    assert task("Taxi-v4", limit=7).environment.limit == 7


def test_environments_are_used_again():
    adapter._idle.clear()
    settings = Gymnasium("Blackjack-v1")
    problem = Problem("p", "p", text="?", meta=Frozen(seed=1))
    for _ in range(5):
        play = settings.start(problem, Key(), None)
        assert asyncio.run(play.step("stick")).terminated
    abandoned = settings.start(problem, Key(), None)
    assert len(adapter._idle["Blackjack-v1", ()]) == 0
    del play, abandoned
    gc.collect()
    assert len(adapter._idle["Blackjack-v1", ()]) == 1


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("FrozenLak-v1", {}, "unknown id of gymnasium .*did you mean FrozenLake-v1"),
        ("FrozenLake-v9", {}, "version `v9`"),
        ("Taxi-v3", {}, "use `Taxi-v4`"),
        ("nosuchpackage:X-v0", {}, "nosuchpackage is not installed: pip install nosuchpackage"),
        ("FrozenLake-v1", {"config": "slippery=false"}, "unexpected keyword .*; the known keywords are desc, is_slippery, map_name"),
        ("FrozenLake-v1", {"config": "x"}, "cannot be read"),
        ("FrozenLake-v1", {"limit": "0"}, "`limit` is 0"),
        ("Pendulum-v1", {}, "actions of the kind Box"),
        ("FrozenLake-v1", {"text": "form.py:nothing"}, 'unknown text form "nothing" .*did you mean nothing_else'),
        ("FrozenLake-v1", {"text": "form.py:nothing_else"}, "has no rules"),
    ],
)
def test_mistakes_are_named(name, options, words, tmp_path, monkeypatch):
    (tmp_path / "form.py").write_text("class nothing_else: ...\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=words):
        load_task(f"gymnasium:{name}", options)


FORM = """
class Pushes:
    rules = "Swing up. Say a push, from -2 to 2."

    def say(self, observation, env):
        return f"height {observation[0]:.2f}"

    def read(self, reply, env):
        try:
            return [float(reply)]
        except ValueError:
            return None
"""


def test_a_users_form_serves_other_actions(tmp_path, monkeypatch):
    (tmp_path / "form.py").write_text(FORM)
    monkeypatch.chdir(tmp_path)
    options = {"text": "form.py:Pushes"}
    check_task(load_task("gymnasium:Pendulum-v1", options), effort=Effort(problems=3, texts=40), strict=True)
    turns = played("Pendulum-v1", ["1.5", "up"], text="form.py:Pushes")
    assert turns[0].observation.startswith("height ")
    assert turns[1].reward < 0
    assert [t.valid for t in turns] == [True, True, False]
    stored = Plan.read(plan("grpo", "gymnasium:Pendulum-v1", task_options=options).stored())
    assert dict(stored.task_options)["text"] == f"{tmp_path.resolve() / 'form.py'}:Pushes"  # a run can be resumed from any folder


def test_ids_are_listed():
    assert {"FrozenLake-v1", "CartPole-v1"} <= set(names())


@pytest.mark.parametrize("name", ["FrozenLake-v1"])
def test_two_steps_train(name, tmp_path: Path):
    few = {"setting__prompts": 2, "setting__group": 2, "setting__max_tokens": 8, "study__problems": 2, "rollout__max_turns": 3}
    run = gradus.train("grpo", f"gymnasium:{name}", steps=2, run=tmp_path / "run", **few)
    assert run.step == 2
