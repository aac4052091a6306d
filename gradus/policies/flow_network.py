"""A velocity field over points, and its configuration. The field is a small multi-layer perceptron, whose inputs are point, time and condition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from gradus.types import Key, UserError

_EVEN = 8  # input widths are padded to a multiple of this


@dataclass(frozen=True)
class FlowConfig:
    """The shape of a velocity field, as stored in a flow model's config.json."""

    dimension: int = 2  # number of dimensions of a sample
    condition: int = 2  # how many numbers a condition has; 0: the model has no condition
    width: int = 96  # width of a hidden layer
    depth: int = 3  # number of hidden layers
    frequencies: int = 4  # the inputs include sin and cos of pi 2^k t for k = 0 to frequencies - 1, in addition to t

    def __post_init__(self) -> None:
        for name, least in (("dimension", 1), ("condition", 0), ("width", 1), ("depth", 1), ("frequencies", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UserError(f"flow model: `{name}` is {value!r}; it must be a whole number, {least} or more")

    @property
    def inputs(self) -> int:
        return self.dimension + self.condition + 1 + 2 * self.frequencies


class Velocity(nn.Module):
    """Computes v(x, t, condition) [N, d] from x [N, d], t [N] and condition [N, c] by affine maps with SiLU between them."""

    def __init__(self, config: FlowConfig, key: Key, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        sizes = [config.inputs, *[config.width] * config.depth, config.dimension]
        self.frequencies = config.frequencies
        self.weights = nn.ParameterList(
            nn.Parameter(torch.from_numpy(key.fold("weight", i).normal(n, m) / math.sqrt(m)).to(dtype))
            for i, (m, n) in enumerate(pairwise(sizes))
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n, dtype=dtype)) for n in sizes[1:])

    def forward(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        waves = math.pi * time[:, None] * 2.0 ** torch.arange(self.frequencies, dtype=time.dtype, device=time.device)
        hidden = torch.cat([x, condition, time[:, None], waves.sin(), waves.cos()], -1).to(self.weights[0].dtype)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            # zero columns up to an even width: on some processors a row's bits otherwise depend on its position (`gradus.policies.blocks`)
            short = -weight.shape[1] % _EVEN
            inputs = nn.functional.pad(hidden if i == 0 else nn.functional.silu(hidden), (0, short))
            hidden = nn.functional.linear(inputs, nn.functional.pad(weight, (0, short)), bias)
        return hidden
