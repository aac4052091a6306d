"""Metrics that add up over micro-batches."""

from __future__ import annotations

import pytest
import torch

from gradus.types.tally import Tally, check_same_shape, merge, tally


def test_parts_add_up_to_the_whole():
    values = torch.tensor([1.0, 2.0, 6.0])
    whole, parts = tally(values), merge({"x": tally(values[:1])}, {"x": tally(values[1:]), "y": tally(values)})
    assert parts["x"].mean == whole.mean == 3.0
    assert parts["x"].count == 3
    assert set(parts) == {"x", "y"}


def test_an_average_stays_as_it_is():
    assert Tally(torch.tensor(0.25), 0).mean == 0.25


def test_truth_values_are_shares_and_nothing_is_nothing():
    assert tally(torch.tensor([True, False, False, False])).mean == 0.25
    assert tally(torch.zeros(0)).mean == 0.0


def test_no_gradient_is_kept():
    assert not tally(torch.ones(2, requires_grad=True)).total.requires_grad


def test_small_numbers_are_summed_in_float64():
    assert tally(torch.full((3,), 1e-30, dtype=torch.float32)).total.dtype == torch.float64


def test_shapes_that_differ_are_all_named():
    check_same_shape(a=torch.zeros(2), b=torch.ones(2))
    with pytest.raises(ValueError, match=r"'a': \(2,\), 'b': \(3,\)"):
        check_same_shape(a=torch.zeros(2), b=torch.zeros(3))
