"""Elementwise functions of rows. The instructions that compute a row do not depend on the other rows.

A kernel processes the data of a thread in full vectors, and then the shorter rest, the tail. exp and tanh are computed by other functions in the tail than in
a vector, so an element's bits depend on its position in the data. If each row is processed separately, the tail is always at the same columns. A row is
processed separately under two conditions: the rows are not contiguous in memory, and each thread's data begins at the start of a row. So the threads must
have equal numbers of rows, or there must be only one thread.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_GRAIN = 32768  # elements per thread in most PyTorch operations
_ALONE = 16384  # up to this number of elements, every PyTorch operation uses one thread
_EVEN = 64  # data whose length is a multiple of this have no tail


def by_rows(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Computes function(x) for rows [rows, width] that are part of a wider matrix, so these rows are not contiguous."""
    (rows, width), threads = x.shape, torch.get_num_threads()
    even = rows % threads == 0 and rows % min(threads, -(-rows * width // _GRAIN)) == 0
    if x.device.type != "cpu" or even or rows * width <= _ALONE:
        return function(x)
    return torch.cat([function(piece) for piece in x.split(max(1, _ALONE // width))])


def tanh(x: Tensor) -> Tensor:
    """Computes tanh of a contiguous tensor whose number of rows is a multiple of 8, in place if possible.

    A row is along the last dimension.
    """
    if x.device.type != "cpu":
        return x.tanh_()
    flat, width = x.view(-1), x.shape[-1]
    if width % (_EVEN // 4) == 0 and len(flat) % _EVEN == 0:
        for piece in flat.split(_ALONE):
            piece.tanh_()
        return x
    apart = x.new_empty(x.numel() // width, width + 1)[:, :width].copy_(x.view(-1, width))
    return by_rows(torch.tanh, apart).view_as(x)
