"""Block sizes for matrix products in which every row gets the same bits. Gradus finds the sizes by trial on this machine.

Measurements with MKL and oneDNN (float32 and bfloat16; 1, 2 and 5 threads) showed two facts about these libraries. First, if the number of rows of a product
is fixed, a row's position and the other rows have no effect on the row's bits. Second, with another number of rows the bits often differ. The reason
is that the library then cuts the inner dimension into other blocks and adds the parts in another order. For narrow models, all blocks of 8 rows or more give
the same bits. For inner dimensions of many hundreds, only some block sizes give the same bits. So each size is tried once per process and shape. Only sizes
that give
the same bits as `BASE` are used.

On some processors the first fact is not true for matrices with few columns or an odd number of columns. With MKL on AMD, measurements showed such differences
for 5 to 11 columns in float32. In float64, measurements showed differences for odd numbers of columns from 3 on. Such matrices are also tried, and are padded
with
columns of zeros if necessary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gradus.policies.products import Matrix

BASE = 64  # rows of the reference block, which works on every machine; another size of MENU is used if it gives the same bits
MENU = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
EVEN = 16  # the number of columns of a padded matrix is a multiple of this
_agreed: dict[tuple[object, ...], frozenset[int]] = {}
_anywhere: dict[tuple[object, ...], bool] = {}


def menu(weights: Sequence[Tensor | Matrix]) -> tuple[int, ...]:
    """Returns the allowed block sizes, in rising order. With an allowed size, x @ weight gives each row the same bits as in a block of BASE rows.

    A size is returned only if this is true for each matrix [in, out] of `weights`.
    """
    agreed = set(MENU)
    for weight in weights:
        key = (weight.shape, weight.dtype, weight.device, torch.get_num_threads(), isinstance(weight, Matrix) and weight.packed)
        if key not in _agreed:
            _agreed[key] = _agree(weight.shape[0], weight.shape[1], weight)
        agreed &= _agreed[key]
    return tuple(sorted(agreed))


def even(weight: Tensor) -> Tensor:
    """Returns the matrix [in, out], padded with zero columns to a multiple of EVEN if necessary.

    Padding is necessary if a row's bits depend on the row's position in the product with the unpadded matrix.
    """
    if weight.shape[1] % EVEN == 0:
        return weight
    key = (weight.shape, weight.dtype, weight.device, torch.get_num_threads())
    if key not in _anywhere:
        some, x = noise(weight.shape[0], weight.shape[1], weight), noise(BASE, weight.shape[0], weight)
        expected = x @ some
        _anywhere[key] = all(torch.equal(x.roll(turn, 0) @ some, expected.roll(turn, 0)) for turn in (1, 3))
    return weight if _anywhere[key] else F.pad(weight, (0, -weight.shape[1] % EVEN))


def cut(rows: int, sizes: Sequence[int]) -> list[int]:
    """Returns the sizes of blocks that together have room for at least `rows` rows.

    Blocks of the largest size come first, until the remaining rows do not fill a block of this size. The last block is the smallest block that has room for
    the rest.
    """
    largest = sizes[-1]
    blocks = [largest] * (rows // largest)
    left = rows - largest * len(blocks)
    return [*blocks, cover(left, sizes)] if left else blocks


def cover(rows: int, sizes: Sequence[int]) -> int:
    """Returns the smallest size with room for `rows` rows. If no size has enough room, returns the largest size."""
    return next((size for size in sizes if size >= rows), sizes[-1])


def _agree(inner: int, outer: int, like: Tensor | Matrix) -> frozenset[int]:
    some = noise(inner, outer, like)
    weight = Matrix(some) if isinstance(like, Matrix) else some
    x = noise(MENU[-1], inner, like)
    expected = torch.cat([piece @ weight for piece in x.split(BASE)])

    def agrees(size: int) -> bool:
        starts = range(0, MENU[-1] - size + 1, size)
        return all(torch.equal(x[start : start + size] @ weight, expected[start : start + size]) for start in starts)

    return frozenset(size for size in MENU if agrees(size))


def noise(rows: int, columns: int, like: Tensor | Matrix) -> Tensor:
    """Returns fixed random numbers [rows, columns].

    Draws only 65,537 numbers and repeats them, because drawing a number for every column of a large vocabulary would take long.
    """
    some = torch.randn(65537, generator=torch.Generator().manual_seed(rows + columns)).to(like.device, like.dtype)
    return some.repeat(-(-rows * columns // len(some)))[: rows * columns].view(rows, columns)
