"""Draws a picture of shapes again from a description. The cell of the shape in the question stays; all other cells come from the description."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from gradus.tasks.generated import is_held_out
from gradus.tasks.pictures.scene import CELL, COLOURS, SHAPES, SIDE, Item, drawn
from gradus.types import Frozen, Problem
from gradus.types.media import Media

_ENTRY = re.compile(rf"({'|'.join(COLOURS)}) ({'|'.join(SHAPES)}) row ([1-{SIDE}]) column ([1-{SIDE}])")
_PLACE = re.compile(rf"row ([1-{SIDE}]) column ([1-{SIDE}])")
MOST_CHARACTERS = 2000  # characters of a description that are read


def described(text: str) -> list[Item]:
    """Returns the shapes of a description such as "red circle row 1 column 2 , blue ring row 4 column 4". The shapes are in reading order, and a cell has the
    first shape that is named for this cell.

    >>> [item.entry for item in described("a red circle row 2 column 1 and blue ring row 1 column 4")]
    ['blue ring row 1 column 4', 'red circle row 2 column 1']
    """
    found: dict[tuple[int, int], Item] = {}
    for colour, shape, row, column in _ENTRY.findall(" ".join(text[:MOST_CHARACTERS].lower().split())):
        found.setdefault((int(row), int(column)), Item(int(row), int(column), colour, shape))
    return [found[cell] for cell in sorted(found)]


def redrawn(problem: Problem, description: str) -> Problem | None:
    """Gives a new picture to a question about the place of a shape. The question, the answer and the pixels of this shape's cell do not change.

    The other shapes come from the description. Two kinds of shapes are left out, so that the answer stays right: shapes in the cell of the asked shape, and
    shapes with its colour and form. Returns None for any other question, for a description without a drawable shape,
    and for a held-out picture.
    """
    place, media = _PLACE.fullmatch(str(problem.answer)), problem.media
    if problem.meta.get("category") != "place" or place is None or len(media) != 1:
        return None
    row, column = (int(n) for n in place.groups())
    target = next((i for i in described(str(problem.meta.get("caption", ""))) if (i.row, i.column) == (row, column)), None)
    if target is None:
        return None
    others = [i for i in described(description) if (i.row, i.column) != (row, column) and i.name != target.name]
    items = sorted([*others, target])
    if not others or is_held_out("shapes", " ".join(f"{i.entry} 0 0" for i in items)):
        return None
    picture = drawn(others)
    cell = np.s_[(row - 1) * CELL : row * CELL, (column - 1) * CELL : column * CELL]
    picture[cell] = media[0].array[cell]
    parts = tuple({**p, "media": Media("image", picture)} if "media" in p else p for p in problem.messages[-1]["content"])
    messages = (*problem.messages[:-1], {**problem.messages[-1], "content": parts})
    return replace(problem, messages=messages, meta=Frozen({**problem.meta, "caption": " , ".join(i.entry for i in items)}))
