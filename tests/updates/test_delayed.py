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


def test_refusals():
    with pytest.raises(UserError, match="actor"):
        moved(1, players=("actor",))
    with pytest.raises(UserError):
        Delayed(every=0)
