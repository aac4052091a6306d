"""Influence by hand, and the choice within each source."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from gradus.curricula.influence import chosen_by_influence, influence


def test_influence_by_hand():
    # cosines of (1, 0) with (1, 0) and (0, 1): 1 and 0; of (0, -1): 0 and -1; of (3, 4): .6 and .8
    assert_allclose(influence(np.array([[2.0, 0], [0, -1], [3, 4], [0, 0]]), np.array([[1.0, 0], [0, 3]])), [0.5, -0.5, 0.7, 0])


def test_each_source_keeps_its_best_and_a_source_that_contradicts_is_left_out():
    values = [0.1, 0.4, 0.2, 0.3, -0.6, 0.5, 0.0]
    assert chosen_by_influence(values, list("aaabccb"), 0.5) == [1, 2, 3]  # c has the mean -.05
    assert chosen_by_influence(values, list("aaabccb"), 1.0) == [0, 1, 2, 3, 6]
    assert chosen_by_influence([-0.1], ["a"], 1.0) == []
