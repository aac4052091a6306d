"""Generated problems of many turns, each with a demonstration, training and held-out ones apart by what they say."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import Turn

HELD_OUT = 10  # one content in so many is held out

Made = tuple[str, Problem]
"""What tells a problem from others, and the problem (its id is given afterwards)."""


@dataclass(frozen=True)
class Drawn:
    """Problem i is the first content of its own keyed sequence that falls on this side of the split."""

    name: str  # of the task; it starts the ids
    make: Callable[[Random, int], Made]  # a candidate of a level
    levels: Sequence[int]  # levels there are
    level: int  # drawn where none is asked for
    held_out: bool = False
    size: int | None = None  # None: without end

    def draw(self, indices: Sequence[int], level: int | None, key: Key) -> list[Problem]:
        """The problems at these indices. Raises UserError for a level that there is not."""
        level = self.level if level is None else level
        if level not in self.levels:
            raise UserError(f"task {self.name} has no level {level}; it has {', '.join(map(str, self.levels))}")
        return [self._one(index, level, key.fold(self.name, level, index)) for index in indices]

    def _one(self, index: int, level: int, key: Key) -> Problem:
        for attempt in itertools.count():
            content, problem = self.make(key.fold(attempt).random(), level)
            if held_out(content) == self.held_out:
                break
        meta = {**problem.meta, "difficulty": level}
        side = "held-out" if self.held_out else "train"
        return Problem(f"{self.name}/{level}/{side}/{index}", self.name, problem.messages, answer=problem.answer, meta=Frozen(meta))


def held_out(content: str) -> bool:
    """Whether a content belongs to the held-out tenth: a function of the content alone."""
    return int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "little") % HELD_OUT == 0


class Playable(Protocol):
    """An episode that can be played without waiting."""

    first: Turn

    def play(self, action: str) -> Turn: ...


def demonstrated(episode: Playable, actions: Sequence[str]) -> list[tuple[str, str]]:
    """(observation, action) of every turn of an episode played with these actions. Raises ValueError where it does not end well."""
    pairs, turn = [], episode.first
    for action in actions:
        if turn.terminated or turn.truncated:
            raise ValueError(f"the episode ended before {action}")
        pairs.append((str(turn.observation), action))
        turn = episode.play(action)
    if not turn.terminated or turn.reward <= 0:
        raise ValueError(f"the demonstration earns nothing: {actions}")
    return pairs


def posed(instruction: str, content: str, answer: Any, meta: Mapping[str, Any]) -> Made:
    """A candidate whose instruction stands before the first observation."""
    return content, Problem("", "", ({"role": "user", "content": instruction},), answer=answer, meta=Frozen(meta))
