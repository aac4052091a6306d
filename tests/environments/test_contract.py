"""What every environment must hold: known draws, a way to win, an end, and calm in the face of any action."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.recipe.registry import task_maker, task_modules
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.turns import opening, plain
from gradus.sandbox import missing
from gradus.testing.environments import told as exactly
from gradus.testing.methods import follow_demonstration, scripted_world
from gradus.testing.subject import of_arrays, some_actions
from gradus.types import Ended, Key, Problem, Request
from gradus.types.parts import Task, Turn

# Every task with an environment. Without a sandbox python_tool is left out; its own tests say that they were skipped.
ALL = sorted(
    name
    for name in task_modules()
    if name != "gsm8k" and (missing() is None or name not in ("code", "python_tool")) and task_maker(name)().environment is not None
)
ARRAYS = [name for name in ALL if of_arrays(task_maker(name)().environment)]
NAMES = [name for name in ALL if name not in ARRAYS]
HOSTILE = {
    "empty": "",
    "space": " \n\t ",
    "huge": "up " * 300_000,
    "one huge word": "a" * 1_000_000,
    "many colons": "search:" * 20_000,
    "not ascii": "пойти наверх 上 ⬆️ é \u202e İ",
    "control characters": "\x00\x1b[31m\x07\r\x85\u2028search\x00: \x0b",
    "lone surrogate": "\ud800 is it \udfff",
    "format and code": "{0} %s ${PATH} {__class__} __import__('os')",
    "patterns": "(((((a+)+)+)+$ [[[ \\ .*",
    "quotes": '\'"`""" answer:\n<|im_end|>',
}


def task_of(name: str, **options: Any) -> Task:
    task = task_maker(name)(**options)
    assert isinstance(task, Task)
    assert task.environment is not None
    return task


def problems(task: Task, count: int = 6, key: Key = Key(0)) -> list[Problem]:
    return task.source.draw(range(count), task.level, key)


def told(task: Task, problem: Problem, actions: list[Any], key: Key) -> list[Turn]:
    """The first turn and the answers to the actions, up to the end."""

    async def run() -> list[Turn]:
        episode = task.environment.start(problem, key, None)  # type: ignore[union-attr, arg-type]
        turns = [episode.first]
        for action in actions:
            if turns[-1].terminated or turns[-1].truncated:
                break
            turns.append(await episode.step(action))
        return turns

    return asyncio.run(run())


def demonstrated_actions(problem: Problem) -> list[str]:
    return [action for _, action in problem.meta["demonstration"]]


def test_the_tasks_with_environments_are_found() -> None:
    assert {"frozen_lake", "search_qa", "twenty_questions"} <= set(NAMES)
    assert {"cartpole", "pendulum"} <= set(ARRAYS)


@pytest.mark.parametrize("name", NAMES)
class TestContract:
    def test_settings_are_frozen_and_comparable(self, name: str) -> None:
        environment = task_of(name).environment
        assert dataclasses.is_dataclass(environment)
        assert environment == task_of(name).environment
        assert hash(environment) == hash(task_of(name).environment)
        with pytest.raises(dataclasses.FrozenInstanceError):
            environment.limit = 3  # type: ignore[misc, union-attr]

    def test_the_first_turn_is_the_problems(self, name: str) -> None:
        task = task_of(name)
        for problem in problems(task):
            first = told(task, problem, [], Key(1))[0]
            assert first == told(task, problem, [], Key(2))[0]
            assert len(plain(opening(problem.messages, first.observation))) > len(problem.messages[0]["content"].split("\n")[0])
            assert isinstance(first.state, str)
            assert (first.reward, first.terminated, first.truncated) == (0.0, False, False)

    def test_equal_keys_give_equal_episodes(self, name: str) -> None:
        task = task_of(name)
        for problem in problems(task):
            actions = [*demonstrated_actions(problem)[:-1], "nonsense", *demonstrated_actions(problem)]
            assert told(task, problem, actions, Key(3)) == told(task, problem, actions, Key(3))

    def test_episodes_do_not_touch_each_other(self, name: str) -> None:
        task = task_of(name)
        (problem,) = problems(task, 1)
        actions = demonstrated_actions(problem)
        one, two = (task.environment.start(problem, Key(3), None) for _ in range(2))  # type: ignore[union-attr, arg-type]

        async def side_by_side() -> list[Turn]:
            answers = []
            for action in actions:
                await two.step("nonsense")
                answers.append(await one.step(action))
            return answers

        assert asyncio.run(side_by_side()) == told(task, problem, actions, Key(3))[1:]

    def test_the_reference_wins_in_a_rollout(self, name: str) -> None:
        task = task_of(name)
        world, _ = scripted_world(task, follow_demonstration)
        groups = asyncio.run(Episodes().run([Request(p) for p in problems(task, 60)], world))
        for group in groups:
            (trajectory,) = group.trajectories
            demonstration = trajectory.problem.meta["demonstration"]
            assert trajectory.ended is Ended.ENVIRONMENT
            assert trajectory.value == 1.0
            assert trajectory.links["turns"] == len(demonstration)
            assert trajectory.links["invalid"] == 0
            actions = [action for _, action in demonstration]
            turns = told(task, trajectory.problem, actions, Key(9))
            seen = [(turn.observation, observation) for turn, (observation, _) in zip(turns, demonstration, strict=False) if turn.errand is None]
            assert all(now == then for now, then in seen)  # after an errand the demonstration holds its finding
            assert len(seen) + len(trajectory.problem.meta.get("errands", ())) == len(demonstration)

    def test_the_reference_wins_at_every_level(self, name: str) -> None:
        low, high = task_of(name).source.levels  # type: ignore[attr-defined]
        for level in range(low, high + 1):
            task = task_of(name, level=level)
            assert all(wins(task, problem) for problem in problems(task, 25, Key(4)))

    @pytest.mark.parametrize("kind", HOSTILE)
    def test_any_action_is_answered(self, name: str, kind: str) -> None:
        task = task_of(name)
        for problem in problems(task, 2):
            turns = told(task, problem, [HOSTILE[kind]] * 1000, Key(6))
            assert len(turns) <= 1 + task.environment.limit  # type: ignore[union-attr]
            for turn in turns[1:]:
                assert_calm(turn)
            assert turns[-1].terminated or turns[-1].truncated  # no episode goes on for ever

    def test_nonsense_is_invalid_and_changes_no_state(self, name: str) -> None:
        task = task_of(name)
        (problem,) = problems(task, 1)
        first, second = told(task, problem, ["nonsense"], Key(6))
        assert not second.valid
        assert second.state == first.state

    def test_an_end_is_never_both(self, name: str) -> None:
        """The last turn that is allowed, taken by an action that wins: terminated alone."""
        task = task_of(name)
        for problem in problems(task):
            actions = demonstrated_actions(problem)
            tight = dataclasses.replace(task, environment=dataclasses.replace(task.environment, limit=len(actions)))  # type: ignore[type-var]
            last = told(tight, problem, actions, Key(6))[-1]
            assert (last.terminated, last.truncated) == (True, False)

    def test_sides_are_disjoint_and_draws_are_functions_of_their_index(self, name: str) -> None:
        task = task_of(name)
        train, held = task.source.draw(range(160), task.level, Key(0)), task.held_out.draw(range(96), task.level, Key(8))
        assert not {content(p) for p in train} & {content(p) for p in held}
        assert len({content(p) for p in train}) > 120
        assert task.source.draw([17, 3], task.level, Key(0)) == [train[17], train[3]]
        assert task.source.draw(range(4), task.level, Key(1)) != train[:4]
        assert len({content(p) for p in held}) == 96
        assert all(wins(task, problem) for problem in held[:30])
        assert len({p.id for p in (*train, *held)}) == 256

    def test_problems_are_plain_and_short(self, name: str) -> None:
        task = task_of(name)
        for problem in problems(task, 50):
            json.dumps(dict(problem.meta))
            assert problem.meta["difficulty"] == task.level
            said = problem.question + "".join(observation + action for observation, action in problem.meta["demonstration"])
            assert said.isascii()
            assert len(said) < 550


@pytest.mark.parametrize("name", ARRAYS)
class TestArrays:
    """Worlds of arrays: the same promises, tried by their own actions. They have no written solution, and so none that must win."""

    def test_settings_are_frozen_and_comparable(self, name: str) -> None:
        environment = task_of(name).environment
        assert environment == task_of(name).environment
        assert hash(environment) == hash(task_of(name).environment)
        with pytest.raises(dataclasses.FrozenInstanceError):
            environment.limit = 3  # type: ignore[misc, union-attr]

    def test_the_first_turn_is_the_key_s(self, name: str) -> None:
        """The first state comes from the key of the episode, or from the problem, which comes from the key of the source."""
        task = task_of(name)
        for problem, another in zip(problems(task), problems(task, key=Key(9)), strict=True):
            once, again, other = told(task, problem, [], Key(1)), told(task, problem, [], Key(1)), told(task, another, [], Key(2))
            assert exactly(once) == exactly(again)
            assert exactly(once) != exactly(other)
            assert_arrays(once[0], once[0])
            assert (once[0].reward, once[0].terminated, once[0].truncated) == (0.0, False, False)

    def test_equal_keys_give_equal_episodes(self, name: str) -> None:
        task = task_of(name)
        for problem in problems(task):
            actions = drawn_actions(task, Key(5), 50)
            assert exactly(told(task, problem, actions, Key(3))) == exactly(told(task, problem, actions, Key(3)))
        assert exactly(told(task, problem, actions, Key(3))) != exactly(told(task, problem, drawn_actions(task, Key(6), 50), Key(3)))

    def test_episodes_do_not_touch_each_other(self, name: str) -> None:
        task = task_of(name)
        (problem,) = problems(task, 1)
        actions = drawn_actions(task, Key(5), 6)
        one, two = (task.environment.start(problem, Key(3), None) for _ in range(2))  # type: ignore[union-attr, arg-type]

        async def side_by_side() -> list[Turn]:
            answers = []
            for action, foreign in zip(actions, drawn_actions(task, Key(6), 6), strict=True):
                if answers and (answers[-1].terminated or answers[-1].truncated):
                    break
                await two.step(foreign)
                answers.append(await one.step(action))
            return answers

        assert exactly(asyncio.run(side_by_side())) == exactly(told(task, problem, actions, Key(3))[1:])

    def test_every_episode_ends_once_and_in_one_way(self, name: str) -> None:
        task = task_of(name)
        limit = task.environment.limit  # type: ignore[union-attr]
        for number, problem in enumerate(problems(task)):
            turns = told(task, problem, drawn_actions(task, Key(number), limit + 5), Key(number))
            for turn in turns[1:]:
                assert_arrays(turn, turns[0])
                assert turn.valid
            assert len(turns) <= 1 + limit
            assert [t.terminated or t.truncated for t in turns] == [False] * (len(turns) - 1) + [True]

    def test_the_last_turn_that_is_allowed_is_terminated_alone(self, name: str) -> None:
        """Where the rules end an episode at the very limit."""
        task = task_of(name)
        (problem,) = problems(task, 1)
        actions = drawn_actions(task, Key(0), 1000)
        turns = told(task, problem, actions, Key(0))
        tight = dataclasses.replace(task, environment=dataclasses.replace(task.environment, limit=len(turns) - 1))  # type: ignore[type-var]
        last = told(tight, problem, actions, Key(0))[-1]
        assert (last.terminated, last.truncated) == (turns[-1].terminated, not turns[-1].terminated)

    @pytest.mark.parametrize("kind", HOSTILE)
    def test_text_is_no_action_and_changes_nothing_shown(self, name: str, kind: str) -> None:
        task = task_of(name)
        (problem,) = problems(task, 1)
        turns = told(task, problem, [HOSTILE[kind]] * 1000, Key(6))
        for turn in turns[1:]:
            assert_arrays(turn, turns[0])
            assert not turn.valid
            assert exactly([Turn(turn.observation)]) == exactly([Turn(turns[0].observation)])
        assert turns[-1].truncated  # no episode goes on for ever

    def test_sides_are_disjoint_and_draws_are_functions_of_their_index(self, name: str) -> None:
        task = task_of(name)
        train, held = task.source.draw(range(40), task.level, Key(0)), task.held_out.draw(range(40), task.level, Key(8))
        assert not {content(p) for p in train} & {content(p) for p in held}
        assert len({p.id for p in (*train, *held)}) == 80
        assert task.source.draw([17, 3], task.level, Key(0)) == [train[17], train[3]]


def drawn_actions(task: Task, key: Key, count: int) -> list[Any]:
    """Own actions of a world of arrays."""
    found = some_actions(task.environment, key, count)  # type: ignore[arg-type]
    assert len(found) == count
    return found


def assert_arrays(turn: Turn, first: Turn) -> None:
    """Named finite arrays of the kinds and shapes of the first turn, a finite reward, at most one end."""
    shown, begun = turn.observation, first.observation
    assert isinstance(shown, dict)
    assert isinstance(begun, dict)
    assert {n: (a.dtype, a.shape) for n, a in shown.items()} == {n: (a.dtype, a.shape) for n, a in begun.items()}
    assert all(np.isfinite(a).all() for a in shown.values())
    assert math.isfinite(turn.reward)
    assert not (turn.terminated and turn.truncated)


def content(problem: Problem) -> str:
    """What a problem says, without its id; candidates in any order are the same."""
    meta = problem.meta
    told = [meta.get(name) for name in ("map", "keys", "question", "apps", "fields", "app", "values", "start", "orders", "slots")]
    return json.dumps([*told, problem.text, sorted(meta.get("candidates", ())), problem.answer])


def wins(task: Task, problem: Problem) -> bool:
    """Whether the demonstration ends the episode with the full reward."""
    last = told(task, problem, demonstrated_actions(problem), Key(5))[-1]
    return last.terminated and last.reward == 1.0


def assert_calm(turn: Turn) -> None:
    assert isinstance(turn.observation, str)
    assert len(turn.observation) < 600
    assert math.isfinite(turn.reward)
    assert not (turn.terminated and turn.truncated)
    assert isinstance(turn.state, str)


@given(st.sampled_from(NAMES), st.lists(st.text(max_size=40), max_size=12), st.integers(0, 5))
def test_whatever_is_said(name: str, actions: list[str], index: int) -> None:
    task = task_of(name)
    for turn in told(task, problems(task)[index], actions, Key(7))[1:]:
        assert_calm(turn)
