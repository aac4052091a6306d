"""Credit for the answers of the policy alone. The slow reference is in tests/reference/test_guided.py."""

from __future__ import annotations

import pytest

from gradus.credit.groups import GroupRelative
from gradus.credit.sampled_only import SampledOnly
from gradus.testing.methods import toy_group


def test_without_given_answers_it_is_the_rule_itself() -> None:
    group = toy_group(1.0, 0.0, 0.5)
    for found, due in zip(SampledOnly().assign([group], {})[0], GroupRelative().assign([group], {})[0], strict=True):
        assert found.advantages.tolist() == due.advantages.tolist()


def test_given_answers_get_0_and_change_no_other_advantage() -> None:
    group = toy_group(1.0, 0.0, 7.0)
    mixed = group.but(trajectories=(*group.trajectories[:2], group.trajectories[2].but(source="expert")))
    first, second, given = (c.advantages.tolist() for c in SampledOnly(GroupRelative(scale="none")).assign([mixed], {})[0])
    assert first == [pytest.approx(0.5)] * len(first)
    assert second == [pytest.approx(-0.5)] * len(second)
    assert given == [0.0] * len(given)
