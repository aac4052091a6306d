"""Clipped advantages: hand numbers, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.credit.clipped import Clipped, bounded
from gradus.credit.gae import GAE
from gradus.credit.groups import GroupRelative, LeaveOneOut
from gradus.testing.methods import advantages_of, toy_group
from gradus.types import UserError


def test_by_hand():
    assert bounded(np.array([-9.0, -5.0, 0.0, 2.5, 7.0]), limit=5, scale=1).tolist() == [-1.0, -1.0, 0.0, 0.5, 1.0]
    assert bounded(np.array([-9.0, 1.0]), limit=2, scale=4).tolist() == [-4.0, 2.0]


def test_it_bounds_what_the_rule_gives():
    # one success among four: sqrt 3 and -1/sqrt 3; over the limit 1 the first is held at 1, scale 2 doubles both
    (row,) = advantages_of(Clipped(GroupRelative(), limit=1.0, scale=2.0), toy_group(1, 0, 0, 0))
    assert row[0] == pytest.approx([2.0, 2.0])
    assert row[1] == pytest.approx([-2 / np.sqrt(3)] * 2)


def test_a_limit_that_is_its_scale_and_never_met_changes_nothing():
    made = toy_group(0.1, 0.9, 0.4)
    assert advantages_of(Clipped(LeaveOneOut(), limit=8.0, scale=8.0), made) == advantages_of(LeaveOneOut(), made)


def test_it_reads_what_its_rule_reads():
    assert Clipped(GAE()).needs == GAE().needs != ()


@pytest.mark.parametrize("field", ["limit", "scale"])
def test_senseless_numbers_are_refused(field):
    with pytest.raises(UserError, match=f"`{field}` is 0.0; it must be above 0"):
        Clipped(**{field: 0.0})
