"""Which kept units are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gradus.selection.laws import Newest, Priority, Uniform, priority_weights
from gradus.types import Key, UserError

LAWS = [Uniform(), Uniform(again=True), Newest(), Priority()]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [1, 5])
def test_a_draw_is_a_function_of_the_key(law, n):
    found, weights = law.draw(3, np.ones(n), Key(1))
    again, same = law.draw(3, np.ones(n), Key(1))
    assert found.tolist() == again.tolist()
    assert weights.tolist() == same.tolist()
    assert found.dtype == np.int64
    assert len(weights) == len(found)
    assert set(found.tolist()) <= set(range(n))


def test_uniform_without_repetition():
    found, weights = Uniform().draw(3, np.ones(5), Key(1))
    assert len(set(found.tolist())) == 3
    assert sorted(Uniform().draw(9, np.ones(5), Key(1))[0].tolist()) == [0, 1, 2, 3, 4]
    assert weights.tolist() == [1, 1, 1]
    counts = np.zeros(5)
    for i in range(2000):
        counts[Uniform().draw(2, np.ones(5), Key(i))[0]] += 1
    assert_allclose(counts / 2000, 0.4, atol=0.04)  # five deviations of sqrt(0.4 * 0.6 / 2000) are 0.055


def test_uniform_with_repetition_has_as_many_as_asked():
    assert len(Uniform(again=True).draw(9, np.ones(2), Key(3))[0]) == 9


def test_the_newest():
    assert Newest().draw(2, np.ones(5), Key())[0].tolist() == [3, 4]
    assert Newest().draw(9, np.ones(2), Key())[0].tolist() == [0, 1]


def test_priority_weights_by_hand():
    """n P = 4 (0.5, 0.25, 0.125, 0.125) = 2, 1, 1/2, 1/2; to the power -1/2: 0.7071, 1, 1.4142; over the largest: 1/2, 0.7071, 1, 1."""
    chances = np.array([0.5, 0.25, 0.125, 0.125])
    assert_allclose(priority_weights(chances, np.array([0, 1, 3, 0]), correction=0.5), [0.5, 0.5**0.5, 1, 0.5])
    assert_allclose(priority_weights(chances, np.array([0, 1, 3]), correction=1.0), [0.25, 0.5, 1])


def test_priority_draws_in_proportion_and_weights_undo_it():
    """Priorities 4 and 1 to the power 1/2: chances 2/3 and 1/3. With correction 1 the weighted counts are equal: 2/3 * 1/2 = 1/3 * 1."""
    law = Priority(power=0.5, correction=1.0, floor=1e-12)
    found, weights = law.draw(30_000, np.array([4.0, 1.0]), Key(2))
    assert_allclose((found == 0).mean(), 2 / 3, atol=0.014)  # five deviations
    assert_allclose(weights[found == 0].sum() / weights[found == 1].sum(), 1.0, atol=0.05)
    assert_allclose(np.unique(weights), [0.5, 1.0])


def test_priority_with_power_0_is_uniform_and_without_weights():
    found, weights = Priority(power=0.0).draw(20_000, np.array([9.0, 1.0, 0.0, 5.0]), Key(5))
    assert_allclose(np.bincount(found) / 20_000, 0.25, atol=0.016)
    assert set(weights.tolist()) == {1.0}


def test_ranges():
    with pytest.raises(UserError, match="correction"):
        Priority(correction=1.5)
