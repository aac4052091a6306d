"""Spaces of actions, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.types.spaces import Box, Choice, Text, in_words

MOVES = Choice(("up", "down"))


def test_a_choice_reads_names_and_indices():
    assert [MOVES.index(action) for action in ("up", " DOWN\n", 0, 1, np.int64(1))] == [0, 1, 0, 1, 1]
    assert [MOVES.index(action) for action in ("left", "", 2, -1)] == [None] * 4


@pytest.mark.parametrize("names", [(), ("up", "up")])
def test_a_choice_needs_different_names(names):
    with pytest.raises(ValueError, match="names of a Choice"):
        Choice(names)


def test_a_box_has_bounds_in_order_and_chunks():
    assert Box((-1.0, 0.0), (1.0, 2.0)).size == 2
    with pytest.raises(ValueError, match="bounds of a Box"):
        Box((0.0,), (0.0,))
    with pytest.raises(ValueError, match="chunk of a Box"):
        Box((0.0,), (1.0,), chunk=0)


def test_actions_in_words():
    assert in_words(" up ", MOVES) == " up "  # as the player said it
    assert in_words(1, MOVES) == "down"
    assert in_words(7, MOVES) == "7"
    assert in_words(np.array([[0.123456, -1.0]], np.float32), Box((-1.0, -1.0), (1.0, 1.0))) == "0.1235 -1"
    assert in_words(3, Text()) == "3"
