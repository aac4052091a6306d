"""Delayed players move with every n-th update of another."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from gradus.types import Key, UserError
from gradus.updates.delayed import Delayed


@dataclass(frozen=True)
class Counting:
    """An update that counts."""

    def apply(self, players, batches, step, key):
        for name in batches:
            players[name].updates += 1
        return {}


def moved(rounds: int, **fields) -> tuple[int, ...]:
    players = {name: SimpleNamespace(updates=0) for name in ("policy", "temperature", "critic")}
    part = Delayed(update=Counting(), **fields)
    for _ in range(rounds):
        part.apply(players, dict.fromkeys(players, None), 0, Key())
    return tuple(players[n].updates for n in ("policy", "temperature", "critic"))


def test_every_fourth():
    assert moved(3, every=4) == (0, 0, 3)
    assert moved(4, every=4) == (1, 1, 4)
    assert moved(11, every=4) == (2, 2, 11)
    assert moved(5, every=1) == (5, 5, 5)
    assert moved(4, every=2, players=("policy",)) == (2, 4, 4)
    assert moved(4, every=2, after="policy") == (4, 2, 2)  # all others wait


def test_a_player_that_is_updated_first_counts_at_once():
    """Two calls a round, the critic's and then the policy's: the policy moves after the critic's 4th and 8th update, not after the 3rd."""
    players = {name: SimpleNamespace(updates=0) for name in ("policy", "critic")}
    part, seen = Delayed(("policy",), every=4, update=Counting()), []
    for _ in range(8):
        part.apply(players, {"critic": None}, 0, Key())
        part.apply(players, {"policy": None}, 0, Key())
        seen.append(players["policy"].updates)
    assert seen == [0, 0, 0, 1, 1, 1, 1, 2]


def test_refusals():
    with pytest.raises(UserError, match="actor"):
        moved(1, players=("actor",))
    with pytest.raises(UserError):
        Delayed(every=0)
