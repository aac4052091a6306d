"""Rates by hand."""

from __future__ import annotations

import pytest

from gradus.simulation.rates import Affine, Measured, Rates
from gradus.types import UserError


def test_a_measured_step_between_below_and_above_the_measured_numbers():
    step = Measured({8: 800, 64: 3200})  # 0.01 s and 0.02 s
    assert [step(n) for n in (1, 8, 36, 64, 128)] == pytest.approx([0.01, 0.01, 0.015, 0.02, 0.04])
    assert [Measured({4: 100})(n) for n in (1, 4, 8)] == pytest.approx([0.04, 0.04, 0.08])


def test_an_affine_step():
    assert Affine(0.5, 0.25)(4) == 1.5


def test_wrong_rates_are_refused():
    with pytest.raises(UserError, match="tokens is empty"):
        Measured({})
    with pytest.raises(UserError, match="0 tokens per second at 8 sequences"):
        Measured({8: 0})
    with pytest.raises(UserError, match="update is -1"):
        Rates(Affine(1), update=-1)
