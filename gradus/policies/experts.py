"""A mixture of experts: a router sends every token to a few of many small MLPs.

Gradients reach the router through the shares of the chosen experts. The balancing loss of pre-training is not added, because a policy's only
objective is the objective of the recipe. Rollout and update may choose different experts if two shares differ only by rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gradus.policies.config import Experts
from gradus.policies.products import linear
from gradus.policies.rows import take_rows, unpad_rows


class Router(nn.Module):
    """Chooses the experts of a token and computes their shares, in float32 at least."""

    def __init__(self, width: int, experts: Experts) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts.count, width))
        self.experts = experts

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Maps x [N, width] to shares [N, chosen] and indices int64 [N, chosen], the largest share first."""
        return choose(linear(x, self.weight), self.experts)


class Weights(nn.Module):
    """The matrices of all experts, each [out, in]."""

    def __init__(self, width: int, experts: Experts) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(experts.count, 2 * experts.width, width))
        self.down_proj = nn.Parameter(torch.empty(experts.count, width, experts.width))


class Mixture(nn.Module):
    """Computes the sum over the chosen experts of share * down(activation(gate(x)) * up(x))."""

    def __init__(self, width: int, experts: Experts, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.gate = Router(width, experts)
        self.experts = Weights(width, experts)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, -2)
        shares, indices = self.gate(flat)
        rows, places, counts = assign(indices, self.gate.experts.count)
        pieces = take_rows(flat, rows).split(counts)
        found = torch.cat([self._expert(e, piece) for e, piece in enumerate(pieces) if len(piece)])
        each = unpad_rows(found, places).unflatten(0, shares.shape)  # [N, chosen, width]
        return (each * shares.unsqueeze(-1)).sum(1).to(x.dtype).view_as(x)

    def _expert(self, index: int, x: Tensor) -> Tensor:
        gate, up = linear(x, self.experts.gate_up_proj[index]).chunk(2, -1)
        return linear(self.activation(gate) * up, self.experts.down_proj[index])


def choose(scores: Tensor, experts: Experts) -> tuple[Tensor, Tensor]:
    """Chooses for every row the experts with the largest softmax of the router's scores [N, count].

    Returns the shares and indices of the chosen experts, both [N, chosen].
    """
    wide = scores if scores.dtype == torch.float64 else scores.float()
    shares, indices = wide.softmax(-1).topk(experts.chosen, -1)
    return (shares / shares.sum(-1, keepdim=True) if experts.normalise else shares), indices


def assign(indices: Tensor, count: int) -> tuple[Tensor, Tensor, list[int]]:
    """Assigns rows to experts, from the chosen experts [N, chosen] of every row.

    Returns three results. The first result lists the rows of each expert, int64 [N * chosen], beginning with the rows of expert 0. The second result
    has, for every choice of every row, the index of the choice in this list. The third result is the number of rows per expert.
    """
    flat = indices.flatten()
    order = flat.argsort(stable=True)
    places = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return order // indices.shape[1], places, torch.bincount(flat, minlength=count).tolist()
