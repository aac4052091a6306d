"""Which tokens of a growing answer have weight 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.groups import GroupRelative
from gradus.credit.new_tokens import NewTokens, mask_of_new
from gradus.testing.methods import toy_group, toy_trajectory
from gradus.types import UserError
from gradus.types.parts import Credited
from gradus.types.pieces import piece_links
from gradus.types.signals import LogProbs


@pytest.mark.parametrize(
    ("new", "still", "before_cut", "mask"),
    [
        (2, True, 0, [0, 0, 0, 1, 1]),
        (5, True, 0, [1, 1, 1, 1, 1]),
        (3, True, 1, [0, 0, 1, 1, 0]),
        (3, False, 1, [0, 0, 1, 1, 1]),  # a finished answer has no cut
        (1, True, 9, [0, 0, 0, 0, 0]),
    ],
)
def test_the_mask_by_hand(new, still, before_cut, mask):
    assert mask_of_new(toy_trajectory([2] * 5, links=piece_links(new, still)), before_cut).tolist() == mask


def test_only_weights_change_and_answers_of_one_step_keep_theirs():
    group = toy_group(1, 0, 0, lengths=[3, 2, 1])
    links = (piece_links(1, False), piece_links(1, True), None)
    group = group.but(trajectories=tuple(t if n is None else t.but(links=n) for t, n in zip(group.trajectories, links, strict=True)))
    (plain,), (ours,) = (rule.assign([group], {}) for rule in (GroupRelative(), NewTokens(GroupRelative())))
    assert [c.advantages.tolist() for c in ours] == [c.advantages.tolist() for c in plain]
    assert [None if c.weights is None else c.weights.tolist() for c in ours] == [[0, 0, 1], [0, 1], None]


class Weighing(GroupRelative):
    """Gives weights of its own."""

    needs = (LogProbs(),)

    def assign(self, groups, signals):
        return [[replace(c, weights=np.array([0.5, 2.0])) for c in row] for row in super().assign(groups, signals)]


def test_weights_of_the_inner_rule_stay_for_new_tokens():
    group = toy_group(1, 0)
    group = group.but(trajectories=(group.trajectories[0].but(links=piece_links(1, True)), group.trajectories[1]))
    (row,) = NewTokens(Weighing()).assign([group], {})
    assert [c.weights.tolist() for c in row] == [[0.0, 2.0], [0.5, 2.0]]
    assert NewTokens(Weighing()).needs == (LogProbs(),)
    assert all(isinstance(c, Credited) for c in row)


def test_a_negative_number_of_tokens_is_refused():
    with pytest.raises(UserError, match="before_cut"):
        NewTokens(before_cut=-1)
