"""Sizes of blocks in which matrix products give every row the same bits, found by trying them on this machine.

What is true of the libraries underneath (measured with MKL and oneDNN, float32 and bfloat16, 1, 2 and 5 threads): in a product of a fixed
number of rows, a row's bits depend neither on its place nor on the other rows. With another number of rows they often do: the inner
dimension is then cut elsewhere and its parts are summed in another order. For narrow models every block from 8 rows up agrees; for inner
dimensions of many hundreds some do. So sizes are tried once in a process for each shape, and only those that agree with `BASE` are used.
On some processors the first half is not true of matrices with few or odd columns (measured with MKL on AMD: 5 to 11 in float32, 3 and more odd
numbers in float64): these are tried, too, and get columns of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

BASE = 64  # rows of the block that every machine and model has; the others of MENU are there where they agree with it
MENU = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
EVEN = 16  # columns of which a matrix has a multiple where the library needs that
_agreed: dict[tuple[object, ...], frozenset[int]] = {}
_anywhere: dict[tuple[object, ...], bool] = {}


def menu(weights: Sequence[Tensor]) -> tuple[int, ...]:
    """Block sizes, ascending, in which x @ weight gives each row of x the bits that it has in a block of BASE rows, for all weights [in, out]."""
    agreed = set(MENU)
    for weight in weights:
        key = (weight.shape, weight.dtype, weight.device, torch.get_num_threads())
        if key not in _agreed:
            _agreed[key] = _agree(weight.shape[0], weight.shape[1], weight)
        agreed &= _agreed[key]
    return tuple(sorted(agreed))


def even(weight: Tensor) -> Tensor:
    """The matrix [in, out], with columns of zeros up to a multiple of EVEN where without them a row's bits hang on its place."""
    if weight.shape[1] % EVEN == 0:
        return weight
    key = (weight.shape, weight.dtype, weight.device, torch.get_num_threads())
    if key not in _anywhere:
        some, x = noise(weight.shape[0], weight.shape[1], weight), noise(BASE, weight.shape[0], weight)
        expected = x @ some
        _anywhere[key] = all(torch.equal(x.roll(turn, 0) @ some, expected.roll(turn, 0)) for turn in (1, 3))
    return weight if _anywhere[key] else F.pad(weight, (0, -weight.shape[1] % EVEN))


def cut(rows: int, sizes: Sequence[int]) -> list[int]:
    """Blocks that together hold at least `rows` rows: as many of the largest as fit, then the smallest that covers what is left."""
    largest = sizes[-1]
    blocks = [largest] * (rows // largest)
    left = rows - largest * len(blocks)
    return [*blocks, cover(left, sizes)] if left else blocks


def cover(rows: int, sizes: Sequence[int]) -> int:
    """The smallest size that holds `rows` rows, or the largest there is."""
    return next((size for size in sizes if size >= rows), sizes[-1])


def _agree(inner: int, outer: int, like: Tensor) -> frozenset[int]:
    weight = noise(inner, outer, like)
    x = noise(MENU[-1], inner, like)
    expected = torch.cat([piece @ weight for piece in x.split(BASE)])

    def agrees(size: int) -> bool:
        starts = range(0, MENU[-1] - size + 1, size)
        return all(torch.equal(x[start : start + size] @ weight, expected[start : start + size]) for start in starts)

    return frozenset(size for size in MENU if agrees(size))


def noise(rows: int, columns: int, like: Tensor) -> Tensor:
    """Numbers of every sign and size [rows, columns], the same at every call; drawn once and repeated, because a vocabulary is wide."""
    some = torch.randn(65537, generator=torch.Generator().manual_seed(rows + columns)).to(like.device, like.dtype)
    return some.repeat(-(-rows * columns // len(some)))[: rows * columns].view(rows, columns)
