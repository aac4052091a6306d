"""A corridor of locked rooms: the player must learn the door of each key from one reward at the end of many turns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import comb
from random import Random

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.corridor_environment import DOORS, KEYS, Corridor, Passage
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling, UserError
from gradus.types.parts import Task

INSTRUCTION = "Door?"
LEVELS = {1: 4, 2: 6, 3: 8, 4: 12, 5: 16}
"""Level -> rooms."""


def corridor(level: int = 3, patience: float = 2.5, back: int = 0) -> Task:
    """Leave a corridor of 4 (`level` 1) to 16 (`level` 5) rooms within `patience` turns per room. A wrong door costs a turn, and leads back by `back` rooms.

    Raises: UserError if `patience` does not lie in 1 to 100.
    """
    if not 1 <= patience <= 100:
        raise UserError(f"task corridor: `patience` is {patience}; give 1 to 100 turns per room, because no player can leave a room in fewer than 1")
    rooms = LEVELS.get(level, 1)
    source = Generated("corridor", partial(make, back=back), level, (min(LEVELS), max(LEVELS)))
    turns = int(rooms * patience)
    return Task(
        "corridor",
        source,
        replace(source, held_out=True),
        environment=Corridor(limit=turns, back=back),
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="find the door of each room in a corridor; a turn is a door",
        sampling=Sampling(max_tokens=3),
        level=level,
        chance=0.0 if back else by_luck(rooms, turns),
    )


def by_luck(rooms: int, turns: int) -> float:
    """Returns the chance that random doors lead out: in at least `rooms` of the turns, the door is correct.

    >>> by_luck(1, 2)
    0.4375
    """
    right = 1 / len(DOORS.names)
    return sum(comb(turns, k) * right**k * (1 - right) ** (turns - k) for k in range(rooms, turns + 1))


def make(rng: Random, level: int, back: int = 0) -> Draft:
    """Makes a corridor with a key in each room; the correct doors are the demonstration."""
    keys = tuple(rng.choice(tuple(KEYS)) for _ in range(LEVELS[level]))
    doors = [KEYS[key] for key in keys]
    pairs = demonstrated(Passage(keys, Corridor(limit=len(keys), back=back)), doors)
    return Draft(INSTRUCTION, " ".join(doors), "\n".join(doors), " ".join(keys), Frozen(keys=keys, demonstration=pairs))
