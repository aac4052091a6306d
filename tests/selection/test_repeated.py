"""Rounds over the same trajectories: how many there are, and that targets are read anew in each."""

from __future__ import annotations

import pytest

from gradus.papers.credit.archer import archer
from gradus.selection.repeated import Repeated
from gradus.testing.methods import toy_group, toy_run
from gradus.training.launch import go
from gradus.types import Key, UserError


def test_every_round_has_all_groups():
    groups = [toy_group(1.0), toy_group(0.0)]
    assert Repeated(3).keep(groups, Key()) == (groups, [])
    assert list(Repeated(3).rounds(groups, Key())) == [groups] * 3
    with pytest.raises(UserError, match="count"):
        Repeated(0)


def test_players_and_moving_averages_move_in_every_round():
    run = go(toy_run(archer.but(selection__count=3, update__every=3, schedule__steps=0), steps=2))
    assert {n: p.updates for n, p in run.players.items()} == {"policy": 2, "critic": 6, "target": 6}
