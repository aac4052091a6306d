"""Operations on rows with deterministic backward passes. These functions do not use advanced indexing, because its backward pass is not
deterministic."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = x.shape
        return x.index_select(0, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).index_add_(0, rows, grad), None


class _Unpad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.shape = x.shape
        return x.index_select(0, slots)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (slots,) = ctx.saved_tensors
        return grad.new_zeros(ctx.shape).index_copy_(0, slots, grad), None


class _Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slots: Tensor, fill: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        return x.index_select(0, fill)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (slots,) = ctx.saved_tensors
        return grad.index_select(0, slots), None, None


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, prefix: Tensor, owner: Tensor, own: Tensor) -> Tensor:
        ctx.save_for_backward(owner)
        ctx.shape = prefix.shape
        joined = own.new_empty(len(owner), prefix.shape[1] + own.shape[1], *own.shape[2:])
        joined[:, : prefix.shape[1]] = prefix.index_select(0, owner)
        joined[:, prefix.shape[1] :] = own
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        (owner,) = ctx.saved_tensors
        length = ctx.shape[1]
        return grad.new_zeros(ctx.shape).index_add_(0, owner, grad[:, :length]), None, grad[:, length:]


class _Place(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return x.index_copy(0, rows, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor]:
        (rows,) = ctx.saved_tensors
        return grad.index_fill(0, rows, 0), None, grad.index_select(0, rows)


def join_prefix(prefix: Tensor, owner: Tensor, own: Tensor) -> Tensor:
    """Joins a prefix to each row: [R, P + S, ...].

    Along dimension 1, row r consists of the prefix owner[r] of `prefix` [B, P, ...] and of row r of `own` [R, S, ...].
    """
    return _Join.apply(prefix, owner, own)


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Returns x[rows] along dimension 0. A row may be taken several times."""
    return _Take.apply(x, rows)


def unpad_rows(x: Tensor, slots: Tensor) -> Tensor:
    """Returns x[slots] along dimension 0. A slot must not occur twice. The other rows get no gradient."""
    return _Unpad.apply(x, slots)


def pad_rows(x: Tensor, slots: Tensor, fill: Tensor) -> Tensor:
    """Returns x[fill] along dimension 0. Row i of x becomes row slots[i] of the result. All other rows of the result are copies whose gradient is dropped.

    The function is correct only if no used result depends on the copies. In attention the keys of the copies are masked, and the queries of the
    copies are not read.
    """
    return _Pad.apply(x, slots, fill)


def place_rows(x: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """Returns x with `values` [k, ...] in the rows `rows`. An index must not occur twice in `rows`. The gradient of these rows goes to the values."""
    return _Place.apply(x, rows, values)
