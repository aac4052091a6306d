"""Elementwise functions: equal rows have equal bits, whatever the threads and whatever else is computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.decoder import ACTIVATIONS
from gradus.policies.elementwise import by_rows, tanh


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("function", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_equal_rows_have_equal_bits_whatever_the_threads(function: Callable[[Tensor], Tensor], threads: int):
    # With 3 threads a plain call is cut inside rows of 1404: its vector part and its tail then fall on other columns.
    row = torch.randn(1, 2 * 1404, generator=torch.Generator().manual_seed(0)) * 3
    gate = row.repeat(64, 1)[:, :1404]
    torch.set_num_threads(threads)
    try:
        found, few = by_rows(function, gate), by_rows(function, gate[:8])
    finally:
        torch.set_num_threads(1)
    assert bool((found == found[0]).all())
    assert torch.equal(few, found[:8])
    assert torch.allclose(found, function(gate.double()).float(), atol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("width", [61, 97, 64, 1536])
def test_tanh_of_equal_rows_has_equal_bits(width: int, threads: int):
    row = torch.randn(1, width, generator=torch.Generator().manual_seed(0))
    torch.set_num_threads(threads)
    try:
        found = [tanh(row.repeat(rows, 1)) for rows in (8, 24, 64, 256)]
    finally:
        torch.set_num_threads(1)
    assert all(bool((rows == found[0][0]).all()) for rows in found)
    assert torch.allclose(found[0], F.tanh(row.double()).float().expand(8, width), atol=1e-6)
