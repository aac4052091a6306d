"""Frozen lake: generated maps, each with a way to the goal."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Literal

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.lake_environment import FrozenLake, Walk, shortest
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Key, Sampling
from gradus.types.parts import Task

INSTRUCTION = "Walk P to G, not into H. Say up, down, left or right."
LEVELS = {1: (3, 0.35, 0.27), 2: (4, 0.25, 0.22), 3: (4, 0.4, 0.15), 4: (5, 0.35, 0.10), 5: (6, 0.35, 0.05)}
"""Level -> cells per side, share of holes, and the measured chance that a random walk reaches the goal."""
LEAST = 2  # least number of moves of the shortest way


def frozen_lake(level: int = 2, slip: float = 0.0, show: Literal["text", "image", "array"] = "text") -> Task:
    """A walk over ice on a generated map of `level` 1 (3 x 3) to 5 (6 x 6). With chance `slip` a move goes sideways. The goal earns 1.

    `show`: the map as text, as a picture of 48 x 48 pixels, or as an array for a controller. Only the text form has demonstrations.
    """
    source = Generated("frozen_lake", make, level, (min(LEVELS), max(LEVELS)))
    return Task(
        "frozen_lake",
        source,
        replace(source, held_out=True),
        environment=FrozenLake(slip, show=show),
        provides=frozenset({"demonstration", "solution", "difficulty"} if show == "text" else {"difficulty"}),
        about="walk over a frozen lake, around the holes, to the goal; a turn is a step",
        sampling=Sampling(max_tokens=12),
        level=level,
        chance=LEVELS[level][2] if level in LEVELS else 0.0,
    )


def make(rng: Random, level: int) -> Draft:
    """Makes a map whose shortest way has two moves or more. This way is the demonstration."""
    size, holes, _ = LEVELS[level]
    while True:
        cells = ["H" if rng.random() < holes else "." for _ in range(size * size)]
        start, goal = rng.sample(range(size * size), 2)
        cells[start], cells[goal] = "P", "G"
        grid = tuple("".join(cells[row * size : (row + 1) * size]) for row in range(size))
        way = shortest(grid)
        if way is not None and len(way) >= LEAST:
            break
    pairs = demonstrated(Walk(grid, FrozenLake(), Key()), way)
    return Draft(INSTRUCTION, " ".join(way), "\n".join(way), "\n".join(grid), Frozen(map=grid, demonstration=pairs))
