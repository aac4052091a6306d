"""Computes one network from several networks of the same shape: their weighted sum, or the fusion of their differences to a common start."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from gradus.types import Key, UserError


def merged(states: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]) -> dict[str, Tensor]:
    """Computes theta = sum_k w_k theta_k for every tensor, in float64 in the order of `weights`, and rounds it once to the tensor's dtype.

    Args: states: name -> the tensors of a network (its `state_dict`); weights: name -> w_k. Tensors of whole numbers (counters) are taken from the first
    network in `weights`.
    Raises: UserError if the networks differ in the name or shape of a tensor.
    """
    first = next(iter(weights))
    _check_same(first, states[first], {name: states[name] for name in weights})
    out: dict[str, Tensor] = {}
    for place, tensor in states[first].items():
        if not tensor.is_floating_point():
            out[place] = tensor.clone()
            continue
        total = torch.zeros(tensor.shape, dtype=torch.float64, device=tensor.device)
        for name, weight in weights.items():
            total += weight * states[name][place].to(tensor.device, torch.float64)
        out[place] = total.to(tensor.dtype)
    return out


def fused(
    base: Mapping[str, Tensor], states: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float], *, drop: float, key: Key
) -> dict[str, Tensor]:
    """Computes theta = theta_0 + sum_k w_k tau_k for every tensor, in float64 in the order of `weights`, and rounds it once to the tensor's dtype.

    tau_k = theta_k - theta_0 is changed in three ways, in this order:

    1. tau_k is scaled so that its norm over all tensors is the mean norm of all tau. 2. Each entry becomes 0 with probability `drop`; the other
    entries are divided by 1 - drop. `key`, the name k and the name of the tensor determine the draws.
    3. An entry becomes 0 if its sign differs from the sign of the sum of all tau at the same index.

    With one network k, drop 0 and weight 1 the result is theta_k.

    Args: base: the tensors of theta_0; states: name -> the tensors of a network (its `state_dict`); weights: name -> w_k. Tensors of whole numbers are taken
    from `base`.
    Raises: UserError if a network differs from `base` in the name or shape of a tensor.
    Reference: LongCat-Flash-Thinking Technical Report, arXiv:2509.18883; 2: Yu et al., DARE, arXiv:2311.03099; 3: Wan et al., SCE, arXiv:2408.07990.
    """
    _check_same("the start", base, {name: states[name] for name in weights})
    places = [place for place, tensor in base.items() if tensor.is_floating_point()]
    norms = {name: math.sqrt(sum(float(_apart(base, states[name], place).square().sum()) for place in places)) for name in weights}
    mean = sum(norms.values()) / len(norms)
    out = {place: tensor.clone() for place, tensor in base.items()}
    for place in places:
        taus = []
        for name in weights:
            tau = _apart(base, states[name], place) * (mean / norms[name] if norms[name] else 1.0)
            if drop:
                kept = torch.from_numpy(key.fold(name, place).uniform(*tau.shape) >= drop).to(tau.device)
                tau = torch.where(kept, tau / (1 - drop), 0.0)
            taus.append(tau)
        sign = torch.stack(taus).sum(0).sign()
        total = base[place].double()
        for tau, weight in zip(taus, weights.values(), strict=True):
            total = total + weight * torch.where(tau.sign() == sign, tau, 0.0)
        out[place] = total.to(base[place].dtype)
    return out


def _apart(base: Mapping[str, Tensor], state: Mapping[str, Tensor], place: str) -> Tensor:
    return state[place].to(base[place].device, torch.float64) - base[place].double()


def _check_same(first: str, state: Mapping[str, Tensor], others: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Raises UserError for the first network in `others` that differs from the network `first` in the name or shape of a tensor."""
    due = {n: tuple(t.shape) for n, t in state.items()}
    for name, other in others.items():
        found = {n: tuple(t.shape) for n, t in other.items()}
        if odd := sorted(n for n in {**due, **found} if due.get(n) != found.get(n)):
            raise UserError(
                f"{first} and {name} cannot be merged: their networks differ in the tensor {odd[0]}"
                f"{f' and {len(odd) - 1} more' if len(odd) > 1 else ''}; merge stages that train the same model"
            )
