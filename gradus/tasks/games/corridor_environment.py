"""A corridor of rooms. Each room has four doors and shows a key. A key fits the same door in every room. A wrong door costs a turn."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from gradus.types import Frozen, Key, Problem
from gradus.types.parts import Turn, World
from gradus.types.ranges import check_ranges
from gradus.types.spaces import Choice

DOORS = Choice(("n", "e", "s", "w"))
KEYS = Frozen({key: DOORS.names[i % len(DOORS.names)] for i, key in enumerate("bkfzmdqt")})
"""Key -> the door that it fits. Two keys fit each door."""


@dataclass(frozen=True)
class Corridor:
    """A corridor with the keys of `problem.meta["keys"]`. The door that the key fits leads to the next room; any other door leads back by `back` rooms. Leaving
    the last room earns 1.
    """

    limit: int = 20  # largest number of turns; then the episode is truncated
    back: int = 0  # rooms that a wrong door leads back; 0: the player stays where it is
    acts: Choice = DOORS
    forks: bool = True

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)", back="[0, inf)")

    def start(self, problem: Problem, key: Key, world: World) -> Passage:
        return Passage(tuple(problem.meta["keys"]), self)


class Passage:
    """One episode in one corridor."""

    def __init__(self, keys: tuple[str, ...], settings: Corridor) -> None:
        self.keys, self.settings = keys, settings
        self.room = self.turns = 0
        self.first = self._turn()

    def fork(self, key: Key) -> Passage:
        """Returns a copy in the same state; nothing here is random."""
        return copy.copy(self)

    async def step(self, action: Any) -> Turn:
        return self.play(action)

    def play(self, action: Any) -> Turn:
        """Returns the turn after one action. An action that names no door counts as a wrong door and is not valid."""
        door = self.settings.acts.index(action)
        self.turns += 1
        if door is not None and self.settings.acts.names[door] == KEYS[self.keys[self.room]]:
            self.room += 1
        else:
            self.room = max(0, self.room - self.settings.back)
        if self.room == len(self.keys):
            return Turn("out", 1.0, terminated=True, state="out")
        return self._turn(valid=door is not None)

    def _turn(self, *, valid: bool = True) -> Turn:
        """Returns the turn that shows the key of the room. The state of the turn is the number and the key of the room."""
        truncated = self.turns >= self.settings.limit
        return Turn(self.keys[self.room], truncated=truncated, state=f"{self.room} {self.keys[self.room]}", valid=valid)
