"""Elementwise functions of rows, each row by the same instructions whatever is computed with it.

The kernels' vector parts and their tails take exp and tanh from different functions, so an element's bits hang on where it lies in the
stretch that a thread is given. Row by row, the tail falls on the same columns. A row is walked over by itself where rows do not lie one
after the other in memory, and a thread's share begins with a row where the threads share rows evenly, or where there is but one thread.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_GRAIN = 32768  # PyTorch gives most operations one more thread for every so many elements
_ALONE = 16384  # elements that it gives to one thread with any operation
_EVEN = 64  # stretches of a multiple of so many elements have no tail


def by_rows(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """function(x) of rows of a wider matrix [rows, width]."""
    (rows, width), threads = x.shape, torch.get_num_threads()
    even = rows % threads == 0 and rows % min(threads, -(-rows * width // _GRAIN)) == 0
    if x.device.type != "cpu" or even or rows * width <= _ALONE:
        return function(x)
    return torch.cat([function(piece) for piece in x.split(max(1, _ALONE // width))])


def tanh(x: Tensor) -> Tensor:
    """tanh of a contiguous tensor whose rows, of the last dimension, are a multiple of 8; in place where that is possible."""
    if x.device.type != "cpu":
        return x.tanh_()
    flat, width = x.view(-1), x.shape[-1]
    if width % (_EVEN // 4) == 0 and len(flat) % _EVEN == 0:
        for piece in flat.split(_ALONE):
            piece.tanh_()
        return x
    apart = x.new_empty(x.numel() // width, width + 1)[:, :width].copy_(x.view(-1, width))
    return by_rows(torch.tanh, apart).view_as(x)
