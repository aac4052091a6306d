"""A walk over a frozen lake: from P to G on a grid, around the holes H. Each observation shows the whole grid, so it is the full state."""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.types import Key, Media, Problem, UserError, unknown
from gradus.types.parts import Turn, World
from gradus.types.spaces import Action, Choice, Observation, Space

Cell = tuple[int, int]  # row, column

MOVES: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
ASIDE = {"up": ("left", "right"), "down": ("left", "right"), "left": ("up", "down"), "right": ("up", "down")}
GOAL_REWARD = 1.0  # reward of the step onto G; every other step gives 0, also the step into a hole
TAIL = 200  # characters of an action that are read, from its end


@dataclass(frozen=True)
class FrozenLake:
    """A lake with the map `problem.meta["map"]` (rows of P . H G). A move over the edge has no effect; a hole or the goal ends the episode."""

    slip: float = 0.0  # chance that a move goes to one of its two sides instead, in [0, 1]
    limit: int = 30  # largest number of moves; then the episode is truncated
    show: Literal["text", "image", "array"] = "text"  # how the grid is shown; an array is for a controller
    acts: ClassVar[Space] = Choice(tuple(MOVES))
    ways: ClassVar[tuple[str, ...]] = ("text", "image", "array")
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.slip <= 1:
            raise UserError(f"frozen_lake: `slip` is {self.slip}; give a probability from 0 to 1")
        if self.limit < 1:
            raise UserError(f"frozen_lake: `limit` is {self.limit}; it must be 1 move or more")
        if self.show not in self.ways:
            raise unknown("way to show the lake", self.show, self.ways, "In show of frozen_lake")

    @property
    def shows(self) -> frozenset[str]:
        """The kinds of data that an observation contains."""
        return frozenset({"array"} if self.show == "array" else {"text", self.show})

    def start(self, problem: Problem, key: Key, world: World) -> Walk:
        return Walk(tuple(problem.meta["map"]), self, key)


class Walk:
    """One episode on one map."""

    def __init__(self, grid: tuple[str, ...], settings: FrozenLake, key: Key) -> None:
        self.grid, self.settings, self.key = grid, settings, key
        self.cell, self.moves = find(grid, "P"), 0
        self.first = Turn(self.observation(), state=f"{self.cell}")

    def fork(self, key: Key) -> Walk:
        """Returns a copy in the same state. `key` decides when the copy slips."""
        made = copy.copy(self)
        made.key = key
        return made

    async def step(self, action: Action) -> Turn:
        return self.play(action)

    def observation(self, said: str = "", *, over: bool = False) -> Observation:
        """Returns the line `said` and the grid, in the form that `settings.show` names; with `over`, only the line. An array always shows only the grid."""
        if self.settings.show == "array":
            return {"grid": planes(self.grid, self.cell)}
        if over:
            return said
        if self.settings.show == "text":
            return "\n".join(filter(None, (said, shown(self.grid, self.cell))))
        text = ({"type": "text", "text": f"{said}\n"},) if said else ()
        return ({"role": "user", "content": (*text, {"type": "image", "media": Media("image", picture(self.grid, self.cell))})},)

    def play(self, action: Action) -> Turn:
        """Returns the turn after one action. A text whose last word is not a direction, or an unknown index, is invalid and uses up a move."""
        self.moves += 1
        truncated = self.moves >= self.settings.limit
        move = parse(action) if isinstance(action, str) else named(action)
        if move is None:
            return Turn(self.observation("not a move"), truncated=truncated, state=f"{self.cell}", valid=False)
        self.cell = moved(self.grid, self.cell, slipped(move, self.settings.slip, self.key.fold("slip", self.moves)))
        ground = self.grid[self.cell[0]][self.cell[1]]
        if ground in "HG":
            reward = GOAL_REWARD if ground == "G" else 0.0
            told = self.observation("goal" if ground == "G" else "hole", over=True)
            return Turn(told, reward, terminated=True, state=f"{self.cell}")
        return Turn(self.observation(), truncated=truncated, state=f"{self.cell}")


def parse(action: str) -> str | None:
    """Returns the direction in the action's last word (up, down, left, right or a first letter, in upper or lower case); None if the last word is no direction."""
    words = re.findall(r"\w+", action[-TAIL:].lower())
    if not words:
        return None
    return next((move for move in MOVES if words[-1] in (move, move[0])), None)


def named(action: Action) -> str | None:
    """Returns the direction of an index; None if the index has no direction."""
    index = FrozenLake.acts.index(action) if isinstance(FrozenLake.acts, Choice) else None
    return None if index is None else tuple(MOVES)[index]


def slipped(move: str, slip: float, key: Key) -> str:
    """Returns the actual move: the chosen move, or with chance `slip` one of the two sideways moves."""
    chance = float(key.uniform()[()])
    return move if chance >= slip else ASIDE[move][chance >= slip / 2]


def moved(grid: Sequence[str], cell: Cell, move: str) -> Cell:
    """Returns the cell after a move. A move over the edge changes nothing."""
    row, column = cell[0] + MOVES[move][0], cell[1] + MOVES[move][1]
    return (row, column) if 0 <= row < len(grid) and 0 <= column < len(grid[row]) else cell


def find(grid: Sequence[str], mark: str) -> Cell:
    """Returns the first cell that has this mark. Raises ValueError if no cell has this mark."""
    for row, line in enumerate(grid):
        if mark in line:
            return row, line.index(mark)
    raise ValueError(f"the map has no {mark}: {'/'.join(grid)}")


def shown(grid: Sequence[str], cell: Cell) -> str:
    """Returns the grid as the player sees it, with P at the player's cell."""
    lines = [line.replace("P", ".") for line in grid]
    lines[cell[0]] = lines[cell[0]][: cell[1]] + "P" + lines[cell[0]][cell[1] + 1 :]
    return "\n".join(lines)


def planes(grid: Sequence[str], cell: Cell) -> np.ndarray:
    """Returns the grid as float32 [rows, columns, 3]: plane 0 is 1 at the holes, plane 1 at the goal, plane 2 at the player's cell."""
    lines = shown(grid, cell)
    marks = [[[float(mark == plane) for plane in "HGP"] for mark in line] for line in lines.split("\n")]
    found = np.array(marks, np.float32)
    if grid[cell[0]][cell[1]] in "HG":  # the player stands on it
        found[cell[0], cell[1], "HG".index(grid[cell[0]][cell[1]])] = 1.0
    return found


COLOURS = {".": (208, 232, 248), "H": (16, 24, 64), "G": (32, 168, 64), "P": (216, 40, 40)}
SIDE = 48  # pixels of a picture


def picture(grid: Sequence[str], cell: Cell) -> np.ndarray:
    """Returns the grid as uint8 [48, 48, 3]: every cell is a square of one colour, and the rest is black."""
    lines = shown(grid, cell).split("\n")
    size = SIDE // len(lines)
    squares = np.array([[COLOURS[mark] for mark in line] for line in lines], np.uint8).repeat(size, 0).repeat(size, 1)
    out = np.zeros((SIDE, SIDE, 3), np.uint8)
    out[: squares.shape[0], : squares.shape[1]] = squares
    return out


def shortest(grid: Sequence[str]) -> list[str] | None:
    """Returns the moves of a shortest way from P to G around the holes; None if there is no way.

    If several ways are shortest, the result is the first in the order up, down, left, right.
    """
    start, goal = find(grid, "P"), find(grid, "G")
    ways: dict[Cell, list[str]] = {start: []}
    waiting = deque([start])
    while waiting:
        cell = waiting.popleft()
        if cell == goal:
            return ways[cell]
        for move in MOVES:
            after = moved(grid, cell, move)
            if after not in ways and grid[after[0]][after[1]] != "H":
                ways[after] = [*ways[cell], move]
                waiting.append(after)
    return None
