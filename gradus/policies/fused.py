"""RMSNorm, the rotation of q and k, and the gated activation, with explicit backward passes.

In narrow models elementwise passes over memory take as long as matrix products. With explicit backward passes, norm and rotation need about half as many passes
as with PyTorch's autograd. The compiled kernels (float32 on a CPU) need only one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from gradus.policies.kernels import kernels

_WIDE = (torch.float32, torch.float64)
_PIECE = 256  # rows per partial sum of a weight's gradient; the number is fixed, so that the sum does not depend on the number of threads

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
}
GATES = {ACTIVATIONS["silu"]: 0, ACTIVATIONS["gelu_pytorch_tanh"]: 1}  # activation -> its number in the kernels


class _RMSNorm(torch.autograd.Function):
    """Computes RMSNorm with PyTorch's operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float, offset: bool) -> Tensor:
        wide = x if x.dtype in _WIDE else x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True).add_(eps))
        ctx.save_for_backward(x, weight, scale)
        ctx.offset = offset
        normed = wide * scale
        return normed.mul_(1 + weight.to(wide.dtype)).to(x.dtype) if offset else normed.to(x.dtype).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """With n = x s:  d weight = sum g n;  d x = s (g w - n mean(g w n))."""
        x, weight, scale = ctx.saved_tensors
        width = x.shape[-1]
        normed = x.to(scale.dtype) * scale
        product = grad * normed
        wide_weight = weight.to(scale.dtype) + 1 if ctx.offset else weight.to(scale.dtype)
        along = (product @ wide_weight).div_(-width).unsqueeze(-1)
        grad_weight = product.flatten(0, -2).sum(0)
        grad_x = torch.mul(grad, wide_weight, out=product).addcmul_(normed, along).mul_(scale)
        return grad_x.to(x.dtype), grad_weight.to(weight.dtype), None, None


class _CompiledNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor, eps: float) -> Tensor:
        x, factor, width = x.contiguous(), factor.contiguous(), x.shape[-1]
        rows = x.numel() // width
        out, scales = torch.empty_like(x), x.new_empty(rows)
        _library().gradus_norm(*_addresses(x, factor, out, scales), rows, width, eps, torch.get_num_threads())
        ctx.save_for_backward(x, factor, scales)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, factor, scales = ctx.saved_tensors
        grad, width, rows = grad.contiguous(), x.shape[-1], len(scales)
        out, sums = torch.empty_like(x), x.new_zeros(-(-rows // _PIECE), width)
        addresses = _addresses(grad, x, factor, scales, out, sums)
        _library().gradus_norm_back(*addresses, rows, width, _PIECE, torch.get_num_threads())
        return out, sums.sum(0), None


class _CompiledGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, kind: int) -> Tensor:
        gate, up = gate.contiguous(), up.contiguous()
        out = torch.empty_like(gate)
        _library().gradus_gate(*_addresses(gate, up, out), out.numel(), kind, torch.get_num_threads())
        ctx.save_for_backward(gate, up)
        ctx.kind = kind
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        gate, up = ctx.saved_tensors
        grad = grad.contiguous()
        to_gate, to_up = torch.empty_like(gate), torch.empty_like(up)
        _library().gradus_gate_back(*_addresses(grad, gate, up, to_gate, to_up), grad.numel(), ctx.kind, torch.get_num_threads())
        return to_gate, to_up, None


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Multiplies the gradient by the transpose of the rotation. The transpose is the inverse rotation, times any common factor of cos and sin."""
        cos, sin = ctx.saved_tensors
        return _turn(grad, cos, sin, -1), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor, sign: int) -> Tensor:
    half = cos.shape[-1]
    out = torch.empty_like(x)
    a, b = x[..., :half], x[..., half : 2 * half]
    torch.mul(a, cos, out=out[..., :half]).addcmul_(b, sin, value=-sign)
    torch.mul(b, cos, out=out[..., half : 2 * half]).addcmul_(a, sin, value=sign)
    if 2 * half < x.shape[-1]:
        out[..., 2 * half :] = x[..., 2 * half :]
    return out


def rms_norm(x: Tensor, weight: Tensor, eps: float, offset: bool = False) -> Tensor:
    """Computes x / sqrt(mean(x^2) + eps) * weight over the last dimension, with the mean in float32 at least.

    With `offset`, the factor is 1 + weight, and the product is rounded only at the end.
    """
    if not compiled(x) or weight.dtype != x.dtype:
        return _RMSNorm.apply(x, weight, eps, offset)
    return _CompiledNorm.apply(x, 1 + weight if offset else weight, eps)


def gated(gate: Tensor, up: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Computes activation(gate) * up."""
    alike = gate.dtype == up.dtype and gate.shape == up.shape
    if not alike or not compiled(gate) or activation not in GATES:
        return activation(gate) * up
    return _CompiledGate.apply(gate, up, GATES[activation])


def compiled(x: Tensor) -> bool:
    """Whether the kernels are installed and support this tensor."""
    return x.dtype == torch.float32 and x.device.type == "cpu" and kernels() is not None


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates x [..., heads, head_dim] by cos and sin [..., pairs]: halves (a, b) become (a cos - b sin, b cos + a sin).

    If there are fewer pairs than head_dim / 2, only the first dimensions are rotated.
    """
    cos, sin = rotation
    return _Rotate.apply(x, cos.unsqueeze(-2), sin.unsqueeze(-2))


def _library() -> Any:
    library = kernels()
    assert library is not None
    return library


def _addresses(*tensors: Tensor) -> list[int]:
    return [t.data_ptr() for t in tensors]
