"""Noise on the weights of RMSNorms, for a player that only samples (`Noisy`).

If noise z is added to the weight w of a norm, the inputs of the next linear layer are multiplied by 1 + z / w. So the copy needs no further parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gradus.types import Key
from gradus.types.players import Noisy


def norms(network: nn.Module) -> dict[str, Tensor]:
    """Returns the weights of the RMSNorms of a network, by name. A module counts if the name of its class ends with RMSNorm."""
    found = ((name, module) for name, module in network.named_modules() if type(module).__name__.endswith("RMSNorm"))
    return {f"{name}.weight": module.weight.detach() for name, module in found if isinstance(getattr(module, "weight", None), Tensor)}


@torch.no_grad()
def renew(players: Mapping[str, Any], key: Key, step: int, steps: int) -> None:
    """Gives each `Noisy` player the current weights of its source, and the noise of step `step` of `steps`, counted from 0.

    Each weight w of an RMSNorm becomes w + sigma z with z ~ N(0, 1). `key` and `step` determine z. The sum is rounded once to the dtype of the weight.
    """
    for name, player in players.items():
        relation = player.spec.model
        if not isinstance(relation, Noisy):
            continue
        source, mine = players[relation.of], dict(player.policy.network.named_parameters())
        for place, weight in source.policy.network.named_parameters():
            mine[place].copy_(weight)
        player.updates = source.updates
        sigma = relation.sigma_at(step, steps)
        for place, weight in norms(player.policy.network).items() if sigma else ():
            noise = torch.from_numpy(key.fold("noise", name, step, place).normal(*weight.shape)).to(weight.device)
            weight.copy_(weight.double() + sigma * noise)
