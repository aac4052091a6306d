"""Scenes of coloured shapes on a grid, and their pictures. Every pixel is computed with whole numbers only, so equal scenes have equal bytes on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

SIDE, CELL = 4, 12  # cells per side, pixels per side of a cell
GROUND = (208, 208, 208)  # light, so that a blackened patch differs from an empty patch
COLOURS = {
    "red": (208, 32, 32),
    "green": (24, 144, 40),
    "blue": (32, 64, 216),
    "yellow": (240, 208, 0),
    "purple": (136, 32, 160),
    "orange": (248, 128, 0),
}
SHAPES = ("circle", "square", "triangle", "cross", "ring")


@dataclass(frozen=True, order=True)
class Item:
    """One shape. Rows and columns are counted from 1, from the upper left corner."""

    row: int
    column: int
    colour: str
    shape: str
    moved: tuple[int, int] = (0, 0)  # pixels down and to the right of the middle of its cell

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"

    @property
    def place(self) -> str:
        return f"row {self.row} column {self.column}"

    @property
    def entry(self) -> str:
        return f"{self.name} {self.place}"


def scene(rng: Random, least: int, most: int, shapes: int, colours: int, moved: int) -> tuple[Item, ...]:
    """Draws `least` to `most` items in different cells, in reading order. In each direction, an item is up to `moved` pixels away from the middle of its cell.

    The shape of an item is one of the first `shapes` shapes, and its colour is one of the first `colours` colours.
    """
    count = rng.randint(least, most)
    cells = sorted(rng.sample(range(SIDE * SIDE), count))

    def off() -> int:
        return rng.randint(-moved, moved) if moved else 0

    return tuple(
        Item(cell // SIDE + 1, cell % SIDE + 1, rng.choice(list(COLOURS)[:colours]), rng.choice(SHAPES[:shapes]), (off(), off()))
        for cell in cells
    )


def drawn(items: Sequence[Item]) -> np.ndarray:
    """Returns the picture of the items, uint8 [48, 48, 3]."""
    picture = np.empty((SIDE * CELL, SIDE * CELL, 3), np.uint8)
    picture[:] = GROUND
    for item in items:
        top, left = (item.row - 1) * CELL, (item.column - 1) * CELL
        picture[top : top + CELL, left : left + CELL][_mask(item.shape, *item.moved)] = COLOURS[item.colour]
    return picture


def _mask(shape: str, down: int, right: int) -> np.ndarray:
    """Returns the pixels of a shape within its cell, bool [12, 12]. Distances are counted in half pixels, so they are whole numbers."""
    y, x = np.mgrid[:CELL, :CELL] * 2 + 1 - CELL
    y, x = y - 2 * down, x - 2 * right
    reach, far = 8, x * x + y * y
    if shape == "circle":
        return far <= reach * reach
    if shape == "square":
        return np.maximum(abs(x), abs(y)) <= reach - 1
    if shape == "triangle":
        return (abs(y) <= reach) & (2 * abs(x) <= y + reach)
    if shape == "cross":
        return (np.maximum(abs(x), abs(y)) <= reach) & (np.minimum(abs(x), abs(y)) <= 2)
    return (far <= reach * reach) & (far >= 20)
