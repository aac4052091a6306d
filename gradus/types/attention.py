"""Statistics of attention weights. Row t contains the weights of position t on the positions 0 to t."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def middle_third(layers: int, most: int = 5) -> tuple[int, ...]:
    """Returns the numbers of at most `most` layers, evenly spread from `layers` / 3 to 2 `layers` / 3. Both ends are rounded down and included."""
    first, last = layers // 3, 2 * layers // 3
    return tuple(int(i) for i in np.linspace(first, last, min(most, last - first + 1)).round())


def head_distances(attention: Tensor, reply: Tensor) -> Tensor:
    """Returns [heads]: the mean over the reply's positions t of sum_s A[t, s] (t - s), where A are the weights [heads, T, T]."""
    at = torch.arange(attention.shape[-1], device=attention.device)
    back = (at.unsqueeze(1) - at).clamp(min=0).to(attention.dtype)
    return (attention * back).sum(-1)[:, reply].mean(-1)


def waad(local: Tensor, reply: Tensor, *, window: int) -> Tensor:
    """Returns the distance over which each reply token t looks back, [A]. The distance is sum_s A[t, s] min(t - s, `window`), where A are the weights `local`
    [T, T]."""
    at = torch.arange(local.shape[-1], device=local.device)
    back = (at.unsqueeze(1) - at).clamp(0, window).to(local.dtype)
    return (local * back).sum(-1)[reply]


def fai(glob: Tensor, reply: Tensor, *, near: int, far: int) -> Tensor:
    """Returns one number per reply token s, [A]: the mean weight that the reply's positions from s + near to s + far give to token s. If there is no such
    position, the number is 0."""
    at = torch.arange(glob.shape[-1], device=glob.device)
    ahead = at.unsqueeze(1) - at
    counted = ((ahead >= near) & (ahead <= far) & torch.isin(at, reply).unsqueeze(1)).to(glob.dtype)
    return ((glob * counted).sum(0) / counted.sum(0).clamp(min=1))[reply]
