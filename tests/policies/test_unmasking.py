"""The order of unmasking: which hidden places a step fills in."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.policies.unmasking import Canvas, Drawn, picked
from gradus.types import Key, Sampling
from gradus.types.masks import Unmask

DRAWN = Drawn(
    tokens=np.zeros(5, int),
    logprobs=np.zeros(5),
    surest=np.log([0.5, 0.9, 0.6, 0.9, 0.4]),
    entropy=np.array([0.3, 0.9, 0.1, 0.2, 0.1]),
)


def places(how, order=(-1, -1, -1, -1, -1)):
    canvas = Canvas(np.zeros(1, np.int32), 5, Sampling(), Key(1), how)
    return picked(canvas, DRAWN, np.array(order), 0).tolist()


@pytest.mark.parametrize(
    ("how", "due"),
    [
        (Unmask("entropy"), [2]),  # of equal ones the earlier
        (Unmask("entropy", 3), [2, 4, 3]),
        (Unmask("confidence", 2), [1, 3]),
        (Unmask("left", 2), [0, 1]),
    ],
)
def test_the_order_by_hand(how, due):
    assert places(how) == due


def test_filled_places_stay():
    assert places(Unmask("entropy"), (-1, -1, 0, -1, 1)) == [3]
    assert places(Unmask("left", 9), (0, -1, 0, -1, 1)) == [1, 3]


def test_random_places_are_drawn_by_the_key():
    drawn = {tuple(picked(Canvas(np.zeros(1, np.int32), 5, Sampling(), Key(i), Unmask("random")), DRAWN, np.full(5, -1), 0)) for i in range(40)}
    assert len(drawn) == 5
