"""Matrix products with weights: rows [n, in] times a matrix of [in, out] numbers, forward and backward.

On a CPU with AVX-512, PyTorch computes float32 products by MKL and bfloat16 products by oneDNN. In a measurement on an AMD EPYC, oneDNN was 2 to 2.4 times as
fast as MKL in float32, and reached the peak of the processor. So on a CPU with AVX-512, oneDNN computes the products whose weight has at least LEAST numbers.
The module calls oneDNN through the operation of PyTorch that PyTorch's compiler uses. In a second measurement, a row of a product of two or more rows got the
same bits for every number of rows,
every position and every number of threads. `blocks` tests this on each machine.

On all other machines, and for smaller weights, PyTorch's own product is used. The choice depends only on machine, type and weight, not on the rows. So a
row's bits do not depend on the other rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEAST = 1 << 14  # smallest number of entries of a weight; for smaller weights, the call of oneDNN takes more time than it saves
_PIECE = 1024  # rows of a partial sum of a weight's gradient: more rows do not stay in the processor's cache
_MANY = 2048  # from this number of rows on, reordering the weight for the library saves more time than it takes; the bits stay the same


@lru_cache
def _available() -> bool:
    operations = getattr(torch.ops, "mkldnn", None)
    found = torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512"
    return found and hasattr(operations, "_linear_pointwise") and hasattr(operations, "_reorder_linear_weight")


def served(weight: Tensor) -> bool:
    """Whether products with this weight are computed by oneDNN."""
    return _plain(weight) and weight.numel() >= LEAST and min(weight.shape) > 1 and _available()


def _plain(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16) and type(x) in (Tensor, nn.Parameter)


def times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x [..., in] times the transpose of `weight` [out, in], plus the bias [out], without gradient."""
    if not served(weight) or not x.numel() or x.dtype != weight.dtype:
        return F.linear(x, weight, bias)
    return _by_onednn(x, weight, bias)


def _by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if not weight.is_mkldnn and weight.is_contiguous() and x.numel() >= _MANY * x.shape[-1]:
        weight = _ordered(weight)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _ordered(weight: Tensor) -> Tensor:
    """Returns the weight [out, in] in the library's own order."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Returns x [..., in] times the transpose of `weight` [out, in], plus the bias [out], with gradient to all three."""
    if not served(weight) or not x.numel() or x.dtype != weight.dtype or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias) if torch.is_grad_enabled() else _by_onednn(x, weight, bias)


def weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """Returns the transpose of grad [n, out] times x [n, in]: the gradient [out, in] of a weight, summed over blocks of rows in order.

    In bfloat16, PyTorch's own product is the fastest, because PyTorch calls oneDNN for it.
    """
    if not (_plain(grad) and _plain(x)) or grad.dtype != torch.float32 or grad.shape[1] * x.shape[1] < LEAST or not len(x) or not _available():
        return grad.t() @ x
    narrow, wide = (grad, x) if grad.shape[1] <= x.shape[1] else (x, grad)
    found: Tensor | None = None
    for a, b in zip(narrow.split(_PIECE), wide.split(_PIECE), strict=True):
        part = _by_onednn(a.t(), b.t())
        found = part if found is None else found.add_(part)
    assert found is not None
    return found if narrow is grad else found.t().contiguous()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.bias = bias is not None
        return _by_onednn(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows = grad.flatten(0, -2)
        return (
            _by_onednn(grad, weight.t()) if of_x else None,
            weight_gradient(rows, x.flatten(0, -2)) if of_weight else None,
            rows.sum(0) if of_bias and ctx.bias else None,
        )


class Linear(nn.Linear):
    """torch.nn.Linear, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class Matrix:
    """A weight [in, out] that multiplies many blocks of rows, written x @ matrix. The weight is brought into the library's own order once."""

    def __init__(self, weight: Tensor) -> None:
        self.shape, self.dtype, self.device = weight.shape, weight.dtype, weight.device
        self.packed = served(weight)
        self._weight = _ordered(weight.t()) if self.packed else weight.contiguous()

    def __rmatmul__(self, x: Tensor) -> Tensor:
        """Returns x [rows, in] @ weight, [rows, out]."""
        return _by_onednn(x, self._weight) if self.packed else x @ self._weight

    def into(self, x: Tensor, out: Tensor) -> Tensor:
        """Returns x @ weight, in the memory of `out` [rows, out] if the library allows it."""
        return _by_onednn(x, self._weight) if self.packed else torch.mm(x, self._weight, out=out)
