"""Computes the weighted sum of several networks that have the same shape."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gradus.types import UserError


def merged(states: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]) -> dict[str, Tensor]:
    """Computes theta = sum_k w_k theta_k for every tensor, in float64 in the order of `weights`, and rounds it once to the tensor's dtype.

    Args: states: name -> the tensors of a network (its `state_dict`); weights: name -> w_k. Tensors of whole numbers (counters) are taken from the first
    network in `weights`.
    Raises: UserError if the networks differ in the name or shape of a tensor.
    """
    first = next(iter(weights))
    shapes = {name: {n: tuple(t.shape) for n, t in states[name].items()} for name in weights}
    for name in weights:
        if odd := sorted(n for n in {**shapes[first], **shapes[name]} if shapes[first].get(n) != shapes[name].get(n)):
            raise UserError(
                f"{first} and {name} cannot be merged: their networks differ in the tensor {odd[0]}"
                f"{f' and {len(odd) - 1} more' if len(odd) > 1 else ''}; merge stages that train the same model"
            )
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
