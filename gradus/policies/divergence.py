"""The KL divergence between two models' distributions over the whole vocabulary, and its gradient with respect to the logits of one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Direction = Literal["reverse", "forward"]


@dataclass(frozen=True, eq=False)
class Other:
    """Another model with the distribution q over the same actions, and the requested kind of divergence from q."""

    logits: Callable[[slice], Tensor]  # gives new logits [a, V] of these actions at their temperature; the caller may overwrite them
    direction: Direction  # "reverse": KL(p || q); "forward": KL(q || p)


def divergence(logp: Tensor, logq: Tensor, direction: Direction) -> Tensor:
    """Returns KL(p || q) ("reverse") or KL(q || p) ("forward") for every row of log-probabilities [a, V]."""
    first, second = (logp, logq) if direction == "reverse" else (logq, logp)
    return (first.exp() * (first - second)).sum(1)


def slopes(part: slice, logp: Tensor, p: Tensor, moving: Sequence[tuple[Other, Tensor, Tensor, Tensor]]) -> Tensor | None:
    """Returns the sum of the gradients of the divergences with respect to the logits [a, V], from (other, divergence, log normaliser, upstream)."""
    total = None
    for other, apart, their_z, up in moving:
        logq = other.logits(part).to(p.dtype).sub_(their_z[part].unsqueeze(1)).clamp_(min=torch.finfo(p.dtype).min)
        if other.direction == "reverse":
            slope = logq.neg_().add_(logp).sub_(apart[part].unsqueeze(1)).mul_(p)
        else:
            slope = logq.exp_().neg_().add_(p)
        slope.mul_(up[part].unsqueeze(1))
        total = slope if total is None else total.add_(slope)
    return total
