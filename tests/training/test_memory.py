"""What parts remember: handed to them last, checked when it comes back, kept by their place."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from gradus.training.memory import Memory
from gradus.types import Problem, Request, UserError

PROBLEM = Problem("p", "toy", text="a")
WORLD = SimpleNamespace(players={"policy": None})


@dataclass(frozen=True)
class Counting:
    """Asks for one sample more each time; `gives` stands for what it returns, where that is to be wrong."""

    first: Any = field(default_factory=lambda: {"count": 1})
    gives: Any = None
    learned: Any = None

    def start(self) -> Any:
        return self.first

    def choose(self, source: Any, count: int, world: Any, state: Any) -> Any:
        return self.gives or ([Request(PROBLEM, state["count"])], {"count": state["count"] + 1})

    def learn(self, groups: Any, dropped: Any, world: Any, state: Any) -> Any:
        return self.learned


def chosen(memory: Memory, part: Any, how: str = "call") -> int:
    (request,) = asyncio.run(getattr(memory, how)("curriculum", part, "choose", None, 1, WORLD))
    return int(request.count)


def test_a_state_comes_back_and_evaluation_keeps_nothing() -> None:
    memory = Memory()
    assert [chosen(memory, Counting()) for _ in range(3)] == [1, 2, 3]
    assert chosen(memory, Counting(), "peek") == chosen(memory, Counting(), "peek") == 4
    assert memory.states == {"curriculum": {"part": "Counting", "state": {"count": 4}}}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Counting(gives=[Request(PROBLEM)]), "returned a list of 1; it must return (requests, state)"),
        (Counting(gives=([Request(PROBLEM)], {1: 2})), "returned a state with the key 1"),
        (Counting(gives=([PROBLEM], {})), "returned a list of 1 with a Problem in it"),
        (Counting(first=object()), "Counting.start (test_memory.py, line"),
        (Counting(first={}), "Counting.choose raised KeyError: 'count' (test_memory.py, line"),
    ],
)
def test_what_is_wrong_is_told_and_not_kept(part: Counting, said: str) -> None:
    memory = Memory()
    with pytest.raises(UserError) as caught:
        chosen(memory, part)
    assert said in str(caught.value)
    assert memory.states.get("curriculum", {"state": part.first})["state"] == part.first


def test_what_learns_gives_its_state() -> None:
    memory, recipe = Memory(), SimpleNamespace(curriculum=Counting(learned={"count": 9}), rollout=None, selection=None, credit=None, reward=None)
    asyncio.run(memory.learn(recipe, [], [], WORLD))
    assert chosen(memory, recipe.curriculum) == 9
    recipe.curriculum = Counting()
    with pytest.raises(UserError, match=r"Counting.learn \(test_memory.py, line \d+\) returned None; it must return the state"):
        asyncio.run(memory.learn(recipe, [], [], WORLD))
