"""Rewriting: a controller chooses the operations that rewrite an instruction. The reward of a turn is 1 if the operation changes the instruction, else 0.

A program plays the instructor: it edits a list of constraints. In some states an operation has no effect, and the instruction stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.tasks.control.episodes import VectorEpisode
from gradus.tasks.control.starts import Starts
from gradus.types import Key, Problem, Sampling, UserError
from gradus.types.parts import Task, World
from gradus.types.spaces import Choice, Space

OPERATIONS = ("breadth", "constrain", "deepen", "concretise", "reason", "complicate")
TOPICS = ("rivers", "clocks", "bread", "maps", "bees", "bridges", "glass", "salt")
TOPIC, CONCRETE, FORMAT, CONSTRAINTS, DEPTH, STEPS, LAST, TURNS = range(8)  # the numbers of a state
MOST = 2  # constraints of one instruction


def rewriting(turns: int = 4) -> Task:
    """Makes the task of rewriting an instruction. In each turn the controller chooses one of six operations. `turns`: number of operations of an episode."""
    if turns < 1:
        raise UserError(f"task rewriting: `turns` is {turns}; an episode needs at least one operation")
    source = Starts("rewriting")
    return Task(
        "rewriting",
        source,
        replace(source, held_out=True),
        environment=Instructor(turns),
        about="choose operations that rewrite an instruction; for controllers, a turn is an operation",
        sampling=Sampling(max_tokens=1),
    )


@dataclass(frozen=True)
class Instructor:
    """The environment of the instruction. The observation `state`, float32 [6], is one-hot: the number of the last operation is 1. Before the first operation,
    all six numbers are 0."""

    limit: int = 4  # number of operations in an episode
    shows: ClassVar[frozenset[str]] = frozenset({"array"})
    acts: ClassVar[Space] = Choice(OPERATIONS)

    def start(self, problem: Problem, key: Key, world: World) -> VectorEpisode:
        topic = float(int(float(key.fold("topic").uniform()) * len(TOPICS)))
        return VectorEpisode(first(topic, self.limit), moved, shown, Choice(OPERATIONS).index, self.limit, named)


def first(topic: float, turns: int) -> np.ndarray:
    """Returns the state of an instruction about a topic, without constraints, before `turns` operations."""
    return np.array([topic, 0, 0, 0, 0, 0, -1, turns], np.float64)


def shown(state: np.ndarray) -> Mapping[str, np.ndarray]:
    return {"state": (np.arange(len(OPERATIONS)) == state[LAST]).astype(np.float32)}


def rewritten(state: np.ndarray, operation: int) -> np.ndarray:
    """Returns the state after an operation. If the operation has no effect, the instruction is unchanged.

    breadth: if the instruction has any additions, replaces the topic and removes the additions. constrain: adds a constraint; two is the limit. deepen: deepens
    a constraint that is not yet deep. concretise: asks for an example of the topic. reason: if a constraint is deep, asks for every step of reasoning.
    complicate: if the topic is concrete, changes the format of the input. Once concretise, reason or complicate has had an effect, the same operation has no
    further effect until breadth removes the additions.
    """
    after = state.copy()
    after[LAST], after[TURNS] = operation, state[TURNS] - 1
    match OPERATIONS[operation]:
        case "breadth" if state[CONCRETE : STEPS + 1].any():
            after[CONCRETE : STEPS + 1] = 0
            after[TOPIC] = (state[TOPIC] + 1) % len(TOPICS)
        case "constrain" if state[CONSTRAINTS] < MOST:
            after[CONSTRAINTS] += 1
        case "deepen" if state[DEPTH] < state[CONSTRAINTS]:
            after[DEPTH] += 1
        case "concretise":
            after[CONCRETE] = 1
        case "reason" if state[DEPTH]:
            after[STEPS] = 1
        case "complicate" if state[CONCRETE]:
            after[FORMAT] = 1
    return after


def equal(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether two instructions have the same topic and the same additions. If so, the reward of the turn is 0."""
    return bool((before[:LAST] == after[:LAST]).all())


def moved(state: np.ndarray, operation: int) -> tuple[np.ndarray, float, bool]:
    """One turn: the next state, the reward, and whether the episode is over."""
    after = rewritten(state, operation)
    return after, float(not equal(state, after)), bool(after[TURNS] <= 0)


def instruction(topic: int, operations: Sequence[int]) -> str:
    """Returns the instruction after the operations, as text.

    >>> instruction(0, [3, 1])
    'Explain one example of rivers. Meet 1 constraint.'
    """
    return described(_after(topic, operations))


def described(state: np.ndarray) -> str:
    """Returns the instruction of a state, as text."""
    count, depth = int(state[CONSTRAINTS]), int(state[DEPTH])
    parts = [
        f"Explain {'one example of ' if state[CONCRETE] else ''}{TOPICS[int(state[TOPIC])]}.",
        "Read a table." if state[FORMAT] else "",
        f"Meet {count} constraint{'s' * (count > 1)}{f', {depth} in depth' if depth else ''}." if count else "",
        "Show every step." if state[STEPS] else "",
    ]
    return " ".join(part for part in parts if part)


def named(state: np.ndarray) -> str:
    """Returns the name of a state: the instruction, the last operation (-1: none yet) and the number of operations that are left."""
    return f"{described(state)} last {int(state[LAST])}, left {int(state[TURNS])}"


def answer(topic: int, operations: Sequence[int]) -> str:
    """Returns the answer to the instruction after the operations. The answer has one sentence for each thing that the instruction asks for.

    >>> answer(0, [3, 1])
    'An example of rivers follows. Constraint 1 is met.'
    """
    state = _after(topic, operations)
    parts = [
        f"{'An example of' if state[CONCRETE] else 'A text about'} {TOPICS[int(state[TOPIC])]} follows.",
        *(["The table is read."] if state[FORMAT] else []),
        *(f"Constraint {n} is met{' in depth' if n <= state[DEPTH] else ''}." for n in range(1, int(state[CONSTRAINTS]) + 1)),
        *(["Every step is shown."] if state[STEPS] else []),
    ]
    return " ".join(parts)


def _after(topic: int, operations: Sequence[int]) -> np.ndarray:
    state = first(float(topic), len(operations))
    for operation in operations:
        state = rewritten(state, operation)
    return state
