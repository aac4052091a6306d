"""Sokoban: generated maps with one box, each with a way to the goal; for one player, or for a team of a planner and a checker."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.sokoban_environment import Push, Sokoban, way
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling
from gradus.types.parts import Task

INSTRUCTION = "P pushes B onto G, # is wall. Say up, down, left or right."
LEVELS = {1: (4, 0.1, 4, 0.21), 2: (4, 0.15, 8, 0.08), 3: (5, 0.15, 10, 0.05), 4: (6, 0.2, 16, 0.02)}
"""Level -> cells per side, share of walls, most moves of the shortest way, and the measured chance that random moves solve the map."""
LEAST = 2  # least number of moves of the shortest way


def sokoban(level: int = 1, team: bool = False) -> Task:
    """Push a box onto a goal on a map of `level` 1 (4 x 4, solved in at most four moves) to 4 (6 x 6). With `team` a planner proposes and a checker decides
    each move."""
    source = Generated("sokoban", make, level, (min(LEVELS), max(LEVELS)))
    return Task(
        "sokoban",
        source,
        replace(source, held_out=True),
        environment=Sokoban(team=team),
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="push a box onto a goal; a turn is a step, or with a team a proposal and a decision",
        sampling=Sampling(max_tokens=12),
        level=level,
        chance=LEVELS[level][3] if level in LEVELS else 0.0,
    )


def make(rng: Random, level: int) -> Draft:
    """Makes a map whose shortest way has at least LEAST moves, and at most the number in LEVELS. This way is the demonstration."""
    size, walls, most, _ = LEVELS[level]
    while True:
        cells = ["#" if rng.random() < walls else "." for _ in range(size * size)]
        player, box, goal = rng.sample(range(size * size), 3)
        cells[player], cells[box], cells[goal] = "P", "B", "G"
        grid = tuple("".join(cells[row * size : (row + 1) * size]) for row in range(size))
        moves = way(grid)
        if moves is not None and LEAST <= len(moves) <= most:
            break
    pairs = demonstrated(Push(grid, Sokoban()), moves)
    return Draft(INSTRUCTION, " ".join(moves), "\n".join(moves), "\n".join(grid), Frozen(map=grid, demonstration=pairs))
