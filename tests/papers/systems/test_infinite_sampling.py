"""Infinite Sampling: the update of GRPO in every order, and the numbers of its docstring."""

from __future__ import annotations

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.infinite_sampling import infinite_sampling
from gradus.rollouts.slotted import Slotted
from gradus.testing.methods import check_same_update, train_toy
from gradus.types.slots import ORDERS, Slots, ends, ends_of_rounds, order_of


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_trains_to_the_weights_of_grpo(order):
    check_same_update(infinite_sampling.but(rollout=Slotted(Slots(3, order, eps=1.0))), grpo, steps=2)


def test_the_steps_of_the_docstring():
    lengths = [10, 2, 2, 2]
    taken = {order: [lengths[i] for i in order_of(lengths, Slots(2, order))] for order in ORDERS}
    found = {order: max((ends_of_rounds if order == "rounds" else ends)(row, 2)) for order, row in taken.items()}
    assert found == {"rounds": 12, "given": 10, "shortest": 12, "longest": 10, "assigned": 10}


def test_the_metrics_of_a_run():
    rows = train_toy(infinite_sampling, steps=3, group=4).metrics
    assert all(row["decode_steps"] >= 1 and 0 < row["rounds"] <= 1 and row["idle"] >= 0 and row["peak_tokens"] > 0 for row in rows)
    assert ["length_error" in row for row in rows] == [False, True, True]


def test_the_setting():
    assert (infinite_sampling.rollout.slots, infinite_sampling.setting.group) == (Slots(8, "shortest"), 32)
