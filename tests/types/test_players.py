"""Relations between players' models."""

from __future__ import annotations

from gradus.types.players import MovingAverage


def test_the_decay_of_an_average_is_constant_or_rises_to_its_value():
    assert [MovingAverage(decay=0.9).decay_at(n) for n in (1, 50)] == [0.9, 0.9]
    assert [MovingAverage(decay=0.3, rise=0.125).decay_at(n) for n in (1, 2, 3, 99)] == [0.125, 0.25, 0.3, 0.3]
