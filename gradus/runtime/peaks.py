"""Short measurements of a machine: the speed of matrix products of given shapes, and the speed at which memory of a given size is read."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

SECONDS = 0.15  # shortest time of one measurement
_LEAST = 5  # smallest number of repetitions


def product_peak(rows: int, inner: int, columns: int, dtype: torch.dtype, device: torch.device | str = "cpu", seconds: float = SECONDS) -> float:
    """Returns the operations per second of the fastest repetition of a matrix product [rows, inner] x [inner, columns]. The product has 2 * rows * inner *
    columns operations.
    """
    a, b = torch.randn(rows, inner).to(device, dtype), torch.randn(inner, columns).to(device, dtype)
    out = torch.empty(rows, columns, dtype=dtype, device=device)
    return 2.0 * rows * inner * columns / best(lambda: torch.mm(a, b, out=out), a, seconds)


def read_peak(size: int, device: torch.device | str = "cpu", seconds: float = SECONDS) -> float:
    """Returns the bytes per second of repeated reads of `size` bytes: the faster of a sum and of a product with a vector.

    If `size` bytes fit into a cache of the processor, the result is the speed of this cache.
    """
    columns = 1024
    matrix = torch.ones(max(size // (4 * columns), 1), columns).to(device)
    vector = torch.ones(columns, device=device)
    done = torch.empty(matrix.shape[0], device=device)
    fastest = min(best(lambda: matrix.sum(), matrix, seconds), best(lambda: torch.mv(matrix, vector, out=done), matrix, seconds))
    return matrix.numel() * 4 / fastest


def best(work: Callable[[], Tensor], where: Tensor, seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Returns the shortest time of one call of `work`, from at least `seconds` seconds of calls. On a GPU, the function waits for the end of each call."""
    settle = (lambda: torch.cuda.synchronize(where.device)) if where.is_cuda else (lambda: None)
    with torch.inference_mode():
        work()
        settle()
        fastest, spent, count = float("inf"), 0.0, 0
        while spent < seconds or count < _LEAST:
            began = clock()
            work()
            settle()
            took = clock() - began
            fastest, spent, count = min(fastest, took), spent + took, count + 1
    return fastest
