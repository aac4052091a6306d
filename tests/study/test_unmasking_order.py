"""The order of unmasking: local@k and global@k by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.study.unmasking_order import global_at, local_at, places


def test_left_to_right_is_wholly_causal():
    order = np.arange(16)
    assert [global_at(order, k) for k in (1, 2, 16)] == [1.0, 1.0, 1.0]
    assert [local_at(order, k) for k in (1, 2, 3)] == [1.0, 1.0, 1.0]


def test_an_order_by_hand():
    # filled in: place 2, 3, 0, 1. Runs of one place extended: 3 after 2 and 1 after 0, so two of three steps; runs of two: none of two steps
    order = np.array([2, 3, 0, 1])
    assert places(order).tolist() == [2, 3, 0, 1]
    assert local_at(order, 1) == pytest.approx(2 / 3)
    assert local_at(order, 2) == 0.0
    # still hidden before the place: two before 2, two before 3, none before 0, none before 1
    assert [global_at(order, k) for k in (1, 2, 3, 4)] == [0.5, 0.5, 1.0, 1.0]


def test_one_step_for_all_is_read_from_the_left():
    assert global_at(np.zeros(5, int), 1) == 1.0
    assert np.isnan(local_at(np.zeros(1, int), 1))
