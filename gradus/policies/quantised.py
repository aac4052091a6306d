"""Frozen weights in 8 or 4 bits: by bitsandbytes, or in NVFP4. Such weights are the base of an adapter, and need a quarter or an eighth of the memory of
float32.

Reference: Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, arXiv:2305.14314, section 3 (4 bits: NormalFloat in blocks of 64; here the scales
are not quantised and stay float32); 8-bit Optimizers via Block-wise Quantization, arXiv:2110.02861, section 2 (8 bits).
"""

from __future__ import annotations

import logging
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradus.policies import nvfp4
from gradus.types import UserError

Bits = Literal[8, 4, "nvfp4"]

BLOCK = 64  # weights that share a scale
DTYPES = (torch.float32, torch.bfloat16)


class Quantised(nn.Module):
    """A matrix [rows, columns] as codes of `bits` bits, row after row, with one float32 scale for every 64 weights. If `bits` is "nvfp4", its format is that
    of `gradus.policies.nvfp4`.

    Raises: UserError if bitsandbytes is missing (not for NVFP4), or if the weights are not float32 or bfloat16.
    """

    codes: Tensor
    scales: Tensor
    scale: Tensor  # the tensor scale; only NVFP4 uses it

    def __init__(self, weight: Tensor, bits: Bits) -> None:
        super().__init__()
        if weight.dtype not in DTYPES:
            dtype, form = str(weight.dtype).removeprefix("torch."), "NVFP4" if bits == "nvfp4" else f"weights of {bits} bits"
            raise UserError(
                f"players.policy.model.bits is {bits} and setting.precision is {dtype}; for {form}, set the precision to float32 or bfloat16"
            )
        self.bits, self.shape, self.dtype = bits, weight.shape, weight.dtype
        if bits == "nvfp4":
            for name, tensor in zip(("codes", "scales", "scale"), nvfp4.encode(weight), strict=True):
                self.register_buffer(name, tensor)
            return
        functions = library()
        # Each row has its own blocks, because the library's CPU kernel misplaces blocks if a row ends within a block.
        blocks = F.pad(weight.detach().reshape(-1), (0, -weight.numel() % BLOCK)).view(-1, BLOCK)
        if bits == 4:
            codes, state = functions.quantize_4bit(blocks, blocksize=BLOCK, quant_type="nf4")
        else:
            codes, state = functions.quantize_blockwise(blocks, blocksize=BLOCK)
        self.register_buffer("codes", codes.reshape(-1))
        self.register_buffer("scales", state.absmax)

    @property
    def dense(self) -> Tensor:
        """Returns the dequantised matrix, [rows, columns], in its original dtype."""
        if self.bits == "nvfp4":
            return nvfp4.decode(self.codes, self.scales, self.scale, self.shape[1]).to(self.dtype)
        functions = library()
        if self.bits == 4:
            state = functions.QuantState(self.scales, shape=(len(self.scales), BLOCK), dtype=self.dtype, blocksize=BLOCK, quant_type="nf4")
            out = functions.dequantize_4bit(self.codes.unsqueeze(1), state)
        else:
            out = functions.dequantize_blockwise(self.codes, absmax=self.scales, blocksize=BLOCK).to(self.dtype)
        return out.reshape(-1)[: self.shape.numel()].view(self.shape)

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies x [..., columns] by the transpose of the matrix: [..., rows].

        The backward pass dequantises the matrix again, so the dequantised matrix is not kept in memory.
        """
        return cast(Tensor, _Product.apply(x, self, True))

    def extra_repr(self) -> str:
        return f"{list(self.shape)}, bits={self.bits}"


class _Product(torch.autograd.Function):
    """Multiplies x by a frozen matrix or by its transpose.

    The gradient of each of the two products is the other product, so a product can be differentiated any number of times.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Quantised, transposed: bool) -> Tensor:
        ctx.matrix, ctx.transposed = matrix, transposed
        return x @ (matrix.dense.t() if transposed else matrix.dense)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return cast(Tensor, _Product.apply(gradient, ctx.matrix, not ctx.transposed)), None, None


def library() -> Any:
    """Returns bitsandbytes.functional. Raises UserError if bitsandbytes is not installed."""
    # On a CPU, bitsandbytes warns about a kernel that is not used here.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    try:
        import bitsandbytes.functional as functions
    except ImportError:
        raise UserError('weights of 8 or 4 bits need the package bitsandbytes: pip install "gradus[quantised]"') from None
    return functions
