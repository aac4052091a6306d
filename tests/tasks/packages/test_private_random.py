"""The lent global generators: own draws, and none taken from the rest of the process."""

from __future__ import annotations

import random

import numpy as np
import pytest

from gradus.tasks.packages.private_random import PrivateRandom


def draws(private: PrivateRandom) -> tuple[float, float]:
    with private.lent():
        return random.random(), float(np.random.rand())


def test_states_go_on_apart_from_each_other_and_from_the_process():
    alone = PrivateRandom(3)
    expected = [draws(alone) for _ in range(2)]
    assert len(set(expected)) == 2
    one, other = PrivateRandom(3), PrivateRandom(4)
    before = random.getstate(), np.random.get_state()[1].tolist()
    mixed = [draws(one), draws(other), draws(one)]
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert mixed[::2] == expected
    assert mixed[1] != expected[0]


def test_an_error_gives_the_generators_back():
    before = random.getstate()

    def failing() -> None:
        with PrivateRandom(1).lent():
            raise KeyError(random.random())

    with pytest.raises(KeyError):
        failing()
    assert random.getstate() == before
