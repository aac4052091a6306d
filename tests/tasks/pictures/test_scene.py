"""Scenes and their pictures."""

from __future__ import annotations

import hashlib

import numpy as np

from gradus.tasks.pictures.scene import CELL, COLOURS, GROUND, SHAPES, SIDE, Item, drawn, scene
from gradus.types import Key


def test_every_shape_is_drawn_in_its_colour_within_its_cell():
    counts = {}
    for shape in SHAPES:
        for moved in ((0, 0), (2, -2), (-2, 2)):
            picture = drawn([Item(2, 3, "blue", shape, moved)])
            painted = (picture != np.array(GROUND, np.uint8)).any(-1)
            assert (picture[painted] == COLOURS["blue"]).all()
            counts.setdefault(shape, set()).add(int(painted.sum()))
            painted[CELL : 2 * CELL, 2 * CELL : 3 * CELL] = False
            assert not painted.any()
    assert counts == {"circle": {52}, "square": {64}, "triangle": {32}, "cross": {28}, "ring": {36}}  # moving loses no pixel


def test_the_bytes_of_a_picture_are_the_same_everywhere():
    items = [Item(1 + i // 3, 1 + i % 3, colour, SHAPES[i % 5]) for i, colour in enumerate(COLOURS)]
    picture = drawn(items)
    assert (picture.shape, picture.dtype) == ((SIDE * CELL, SIDE * CELL, 3), np.uint8)
    assert hashlib.blake2b(picture.tobytes(), digest_size=8).hexdigest() == "e13bb94b8d646a76"


def test_a_scene_has_what_was_asked_for():
    for i in range(50):
        items = scene(Key(i).random(), 3, 6, 2, 3, 1)
        assert 3 <= len(items) <= 6
        assert list(items) == sorted(items)
        assert len({(item.row, item.column) for item in items}) == len(items)
        assert {item.shape for item in items} <= set(SHAPES[:2])
        assert {item.colour for item in items} <= set(list(COLOURS)[:3])
        assert max(abs(step) for item in items for step in item.moved) <= 1
    assert scene(Key(1).random(), 3, 6, 2, 3, 1) == scene(Key(1).random(), 3, 6, 2, 3, 1)
