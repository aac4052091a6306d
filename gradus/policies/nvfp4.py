"""NVFP4, a format of 4-bit floating-point numbers. Each row of a matrix has blocks of 16 numbers.

    value = code * block scale * tensor scale

A code is one of 0, 0.5, 1, 1.5, 2, 3, 4, 6, with a sign (E2M1: 2 bits of exponent and 1 bit of mantissa). Each block has a scale in 8 bits (E4M3),
and the matrix has one scale in float32. So a number takes 4.5 bits. The tensor scale is chosen for the largest number of the matrix: its code is 6, and the
scale of its block is 448, the largest number of E4M3.

Reference: NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149, section 2 and appendix B; used by QeRL, arXiv:2510.11696, section 2.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

GRID = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
BLOCK = 16  # numbers that share a scale
LARGEST, LARGEST_SCALE = 6.0, 448.0  # the largest numbers of the formats E2M1 and E4M3
NEGATIVE = 8  # this bit of a code is the sign


def nearest_codes(values: Tensor) -> Tensor:
    """Returns the codes of `values`, uint8 of the same shape: the index of the nearest number in `GRID`, plus 8 for a negative number.

    A value in the middle between two numbers gets the even code. Values beyond 6 get the code of 6.

    >>> nearest_codes(torch.tensor([0.25, 0.75, -2.5, 9.0])).tolist()
    [0, 2, 12, 7]
    """
    grid = torch.tensor(GRID, dtype=values.dtype, device=values.device)
    middles = (grid[1:] + grid[:-1]) / 2
    below, above = (torch.bucketize(values.abs(), middles, right=right) for right in (False, True))  # they differ only at a middle
    codes = torch.where(below % 2 == 0, below, above)
    return torch.where((values < 0) & (codes > 0), codes + NEGATIVE, codes).to(torch.uint8)


def numbers_of(codes: Tensor) -> Tensor:
    """Returns the numbers that the codes represent, float32 of the same shape."""
    grid = torch.tensor((*GRID, *(-number for number in GRID)), device=codes.device)
    return grid[codes.long()]


def encode(weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the codes, the block scales and the tensor scale of a matrix [rows, columns].

    The codes are uint8 [rows, blocks, 8] with two codes per byte, the first one in the low half. The block scales are the bytes of E4M3 numbers, uint8
    [rows, blocks], where blocks = ceil(columns / 16). The tensor scale is a float32 scalar. The scale of a block is its largest absolute number / 6. If the
    scale of a block rounds to 0, all its numbers become 0.
    """
    blocks = F.pad(weight.detach().float(), (0, -weight.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))
    tensor_scale = blocks.abs().amax() / (LARGEST * LARGEST_SCALE)
    tensor_scale = torch.where(tensor_scale > 0, tensor_scale, 1.0)  # a matrix of zeros
    exact = blocks.abs().amax(2) / (LARGEST * tensor_scale)
    scales = exact.clamp(max=LARGEST_SCALE).to(torch.float8_e4m3fn)
    whole = scales.float().unsqueeze(2) * tensor_scale
    codes = nearest_codes(torch.where(whole > 0, blocks / whole, 0.0))
    return codes[..., 0::2] | codes[..., 1::2] << 4, scales.view(torch.uint8), tensor_scale


def decode(codes: Tensor, scales: Tensor, tensor_scale: Tensor, columns: int) -> Tensor:
    """Returns the matrix that the codes and scales of `encode` represent, float32 [rows, columns]."""
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(2)
    whole = scales.view(torch.float8_e4m3fn).float() * tensor_scale
    return (numbers_of(pairs) * whole.unsqueeze(2)).flatten(1)[:, :columns]
