"""The contract of environments: a sound one keeps it, and each way to break it is found by the rule that is there for it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from gradus.tasks.generated import Draft, Generated
from gradus.testing import ContractBroken, Effort, Limits, check_environment, check_task
from gradus.types import Frozen, Problem, UserError
from gradus.types.parts import Task, Turn
from gradus.types.spaces import Box

pytestmark = pytest.mark.alone

SMALL = Effort(problems=4, texts=60)


@dataclass(frozen=True)
class Guess:
    """Guess a number below 100: higher or lower, five guesses."""

    limit: int = 5
    game: type = object

    def start(self, problem, key, world):
        return (Game if self.game is object else self.game)(problem, key, self)


class Game:
    def __init__(self, problem, key, settings):
        self.number, self.left, self.key, self.settings = problem.meta["number"], settings.limit, key, settings
        self.first = Turn("your guess?")

    async def step(self, action):
        self.left -= 1
        word = action.strip()
        if word == str(self.number):
            return Turn("right", reward=1.0, terminated=True)
        if not (word.isascii() and word.isdecimal() and len(word) < 9):
            return Turn("not a number", truncated=self.left == 0, valid=False)
        return Turn("higher" if self.number > int(word) else "lower", truncated=self.left == 0)


def make(rng, level):
    number = rng.randrange(100)
    return Draft("Guess my number.", answer=number, solution=f"50\n{number}", content=str(number), meta=Frozen(number=number))


def task(environment):
    source = Generated("guess", make, 1, (1, 1))
    return Task("guess", source, replace(source, held_out=True), environment=environment)


def broken(environment, **more):
    report = check_environment(task(environment), effort=SMALL, limits=Limits(seconds=0.3), **more)
    return {c.rule: c.findings[0] for c in report.checked if c.findings}


def answering(turn):
    """An episode that answers every action by what this makes of it."""

    class Answering(Game):
        async def step(self, action):
            return turn(self, action)

    return Guess(game=Answering)


def test_a_sound_environment_keeps_it():
    report = check_environment(task(Guess()), effort=SMALL, strict=True)
    assert [c.tried for c in report.checked] == [1, 4, 4, 4, 60]
    assert "reference actions" in {c.rule for c in check_task(task(Guess()), effort=SMALL, strict=True).checked}


def test_it_can_be_tried_on_problems_alone():
    problems = [Problem(str(i), "guess", text="guess", meta=Frozen(number=i, solution=str(i))) for i in range(3)]
    assert check_environment(Guess(), problems, effort=SMALL, strict=True).subject == "Guess"
    lost = check_environment(Guess(), problems, actions=lambda p: ["1"], effort=SMALL, only=["reference actions"])
    assert [f.split(": ")[1] for f in lost.findings] == ["problem 0", "problem 2"]
    with pytest.raises(UserError, match="Guess needs problems"):
        check_environment(Guess())


class Thawed:
    def start(self, problem, key, world):
        return Game(problem, key, Guess())


class Shared(Game):
    """Keeps what is left of all episodes in the class."""

    used: dict[str, int] = {}

    async def step(self, action):
        Shared.used[str(self.number)] = Shared.used.get(str(self.number), 0) + 1
        return Turn(f"{Shared.used[str(self.number)]} guesses", reward=0.5)


class Beside(Game):
    """The newest episode is the one that is played."""

    running: list[Game] = []

    def __init__(self, problem, key, settings):
        super().__init__(problem, key, settings)
        Beside.running[:] = [self]

    async def step(self, action):
        if Beside.running[0] is not self:
            return Turn("not your turn")
        return await super().step(action)


class Scribbling(Game):
    """Writes into its problem."""

    def __init__(self, problem, key, settings):
        super().__init__(problem, key, settings)
        problem.messages[0]["content"] += "!"


class Hanging(Game):
    def __init__(self, problem, key, settings):
        while True:
            pass


class Unawaited(Game):
    def step(self, action):
        return Turn("no")


def test_an_episode_that_changes_its_problem_is_found():
    found = broken(Guess(game=Scribbling), only=["equal episodes"])["equal episodes"]
    assert found.endswith("an episode changes its problem, which other episodes use too; change a copy")


def test_an_answer_that_is_not_awaited_is_found_with_what_to_do():
    found = broken(Guess(game=Unawaited), only=["episodes apart"])["episodes apart"]
    assert "`step` is not a coroutine; write async def step (test_environments.py, line " in found


def test_of_an_environment_that_hangs_one_problem_is_tried(monkeypatch):
    monkeypatch.setattr("gradus.testing.environments.LONGEST", 0.3)
    report = check_environment(task(Guess(game=Hanging)), effort=SMALL, limits=Limits(seconds=0.3), only=["episodes apart"])
    (found,) = report.findings
    assert re.search("(processor time|within .* s); the rest was not tried$", found)


def test_what_breaks_it_is_found():
    assert "Thawed is not a frozen dataclass" in broken(Thawed())["settings"]
    chance = broken(answering(lambda game, action: Turn(str(random.SystemRandom().random()), reward=1.0)))
    assert chance.keys() == {"equal episodes", "episodes apart"}
    assert "turn 1 differs in a second episode" in chance["equal episodes"]
    assert "equal episodes" in broken(Guess(game=Shared))
    assert broken(Guess(game=Beside)).keys() == {"episodes apart"}
    assert "earn 0, not 1; the episode was truncated after 1" in broken(Guess(limit=1))["reference actions"]
    assert "earn 0, not 1; the episode went on after 2" in broken(answering(lambda game, action: Turn("no")))["reference actions"]


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (lambda game, action: Turn("x", terminated=True, truncated=True), "both terminated and truncated"),
        (lambda game, action: Turn("x", reward=float("inf")), "a turn's reward is inf"),
        (lambda game, action: Turn(b"x"), "a turn's observation is bytes"),
        (lambda game, action: Turn(({"role": "user"},)), "lacks role or content"),
        (lambda game, action: Turn("x", state=3), "a turn's state is int"),
        (lambda game, action: "x", "an answer is str, not a Turn; return gradus.types.parts.Turn(observation, reward)"),
        (lambda game, action: Turn(str(int(action))), "raised ValueError"),
        (lambda game, action: Turn(str(eval("1"))), "ran code (exec"),
    ],
)
def test_turns_that_break_it_are_found(turn, told):
    found = broken(answering(turn), only=["hostile actions"])
    assert told in found["hostile actions"]


def test_without_an_environment_it_is_refused():
    with pytest.raises(UserError, match="task arithmetic has no environment"):
        check_environment("arithmetic")
    with pytest.raises(UserError, match="of type int"):
        check_environment(3)
    with pytest.raises(ContractBroken, match="reference actions"):
        check_environment(task(Guess(limit=1)), effort=SMALL, strict=True)


@dataclass(frozen=True)
class Walk:
    """A world of arrays: a place that a number moves."""

    fault: str = ""
    shows = frozenset({"array"})
    acts = Box((-1.0,), (1.0,))

    def start(self, problem, key, world):
        return Walker(self.fault, key)


class Walker:
    everywhere = 0.0

    def __init__(self, fault, key):
        self.fault, self.place, self.steps = fault, 0.0 if fault == "one start" else float(key.uniform()), 0
        self.first = Turn(self.shown())

    def shown(self):
        wrong = {"not finite": np.array([np.nan]), "no array": [0.0]}
        return {"place": wrong.get(self.fault, np.array([self.place], np.float32))}

    async def step(self, action):
        self.steps += 1
        if isinstance(action, str):
            return Turn(self.shown(), truncated=self.steps == 9, valid=False)
        self.place += float(action[0])
        if self.fault == "shared":
            Walker.everywhere += float(action[0])
            self.place = Walker.everywhere
        if self.fault == "unseeded":
            self.place += random.random()
        return Turn(self.shown(), self.place, truncated=self.steps == 9)


@pytest.mark.parametrize(
    ("fault", "rule", "said"),
    [
        ("", None, ""),
        ("not finite", "equal episodes", "an observation of arrays contains 'place'; give finite NumPy numbers by name"),
        ("no array", "equal episodes", "an observation of arrays contains 'place'"),
        ("unseeded", "equal episodes", "differs in a second episode of the same key and actions"),
        ("shared", "episodes apart", "an episode changes while a second one is running"),
        ("one start", "other keys", "episodes of another key begin alike; draw the first state from the key"),
    ],
)
def test_a_world_of_arrays_is_tried_by_its_own_actions(fault, rule, said):
    report = check_task(task(Walk(fault)), effort=SMALL, limits=Limits(seconds=0.3))
    found = {c.rule: c.findings[0] for c in report.checked if c.findings}
    assert rule is None or said in found[rule]
    assert fault or not found
    assert next(c for c in report.checked if c.rule == "reference actions").skipped.startswith("an environment of arrays has no written solution")
