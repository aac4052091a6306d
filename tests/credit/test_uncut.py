from __future__ import annotations

import pytest

from gradus.credit.groups import GroupRelative
from gradus.credit.uncut import Uncut
from gradus.testing.methods import advantages_of, toy_group
from gradus.types import Ended
from gradus.types.signals import LogProbs


def ended(*ends: Ended):
    group = toy_group(1, 0, 0, 1, lengths=[2, 3, 1, 1])
    return group.but(trajectories=tuple(t.but(ended=e) for t, e in zip(group.trajectories, ends, strict=True)))


def test_cut_answers_have_weight_0_and_count_in_the_group():
    group = ended(Ended.STOP, Ended.LENGTH, Ended.CONTEXT, Ended.ENVIRONMENT)
    (row,) = Uncut().assign([group], {})
    assert [None if c.weights is None else c.weights.tolist() for c in row] == [None, [0.0] * 3, [0.0], None]
    assert advantages_of(Uncut(), group) == [[[1.0, 1.0], [-1.0] * 3, [-1.0], [1.0]]]  # mean 1/2, deviation 1/2 over all four


def test_without_cut_answers_nothing_changes():
    group = ended(*[Ended.STOP] * 4)
    plain, ours = (rule.assign([group], {})[0] for rule in (GroupRelative(), Uncut()))
    assert [c.weights for c in ours] == [None] * 4
    assert [c.advantages.tolist() for c in ours] == [c.advantages.tolist() for c in plain]


@pytest.mark.parametrize("end", [Ended.STOP, Ended.ENVIRONMENT, Ended.TRUNCATED])
def test_other_ends_are_learned_from(end):
    assert all(c.weights is None for c in Uncut().assign([ended(*[end] * 4)], {})[0])


def test_it_needs_what_its_rule_needs():
    class Reading(GroupRelative):
        needs = (LogProbs(),)

    assert Uncut(Reading()).needs == (LogProbs(),)
