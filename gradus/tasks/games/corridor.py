"""A corridor of locked rooms: which door each key fits must be learned from one reward at the end of many turns."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.corridor_environment import KEYS, Corridor, Passage
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling
from gradus.types.parts import Task

INSTRUCTION = "Door?"
LEVELS = {1: (4, 0.22), 2: (6, 0.15), 3: (8, 0.10), 4: (12, 0.05), 5: (16, 0.03)}
"""Level -> rooms, and the chance of random doors: that of `rooms` right ones in the turns of the limit, each with chance 1/4."""


def corridor(level: int = 3, back: int = 0) -> Task:
    """Leave a corridor of 4 (`level` 1) to 16 (`level` 5) rooms within 2.5 turns a room. A wrong door costs the turn, and leads `back` rooms back."""
    rooms = LEVELS[level][0] if level in LEVELS else 1
    settings = Corridor(limit=rooms * 5 // 2, back=back)
    source = Generated("corridor", partial(make, back=back), level, (min(LEVELS), max(LEVELS)))
    return Task(
        "corridor",
        source,
        replace(source, held_out=True),
        environment=settings,
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="find the door of each room in a corridor; a turn is a door",
        sampling=Sampling(max_tokens=3),
        level=level,
        chance=LEVELS[level][1] if level in LEVELS and not back else 0.0,
    )


def make(rng: Random, level: int, back: int = 0) -> Draft:
    """A corridor with a key in each room; the right doors are its demonstration."""
    keys = tuple(rng.choice(tuple(KEYS)) for _ in range(LEVELS[level][0]))
    doors = [KEYS[key] for key in keys]
    pairs = demonstrated(Passage(keys, Corridor(limit=len(keys), back=back)), doors)
    return Draft(INSTRUCTION, " ".join(doors), "\n".join(doors), " ".join(keys), Frozen(keys=keys, demonstration=pairs))
