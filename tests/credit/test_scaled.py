from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from gradus.credit.groups import Constant, GroupRelative
from gradus.credit.scaled import Same, Scaled
from gradus.testing.methods import advantages_of, toy_group
from gradus.types import UserError
from gradus.types.signals import Entropy


@dataclass(frozen=True)
class Rising:
    """1, 2, 3, ... over the actions."""

    only_positive: bool = False

    needs = (Entropy(),)

    def factors(self, groups, signals):
        return [[np.arange(1.0, t.actions + 1) for t in g.trajectories] for g in groups]


def test_by_hand():
    group = toy_group(1, 0, lengths=[2, 3])  # advantages 1 and -1
    assert advantages_of(Scaled(GroupRelative(), Rising(only_positive=True)), group) == [[[1.0, 2.0], [-1.0, -1.0, -1.0]]]
    assert advantages_of(Scaled(GroupRelative(), Rising()), group) == [[[1.0, 2.0], [-1.0, -2.0, -3.0]]]


def test_a_factor_of_1_changes_no_bit():
    group = toy_group(0.3, 0.9, 0.1, lengths=[2, 3, 1])
    assert advantages_of(Scaled(GroupRelative(), Same()), group) == advantages_of(GroupRelative(), group)


def test_it_needs_what_both_need_and_checks_the_shape():
    assert Scaled(Constant(), Rising()).needs == (Entropy(),)

    @dataclass(frozen=True)
    class Wrong(Rising):
        def factors(self, groups, signals):
            return [[np.ones(1) for _ in g.trajectories] for g in groups]

    with pytest.raises(UserError, match=r"factors .*returned an array of shape \[1\]; it must return an array \[2\], one factor per action"):
        Scaled(GroupRelative(), Wrong()).assign([toy_group(1, 0, lengths=[2, 3])], {})
