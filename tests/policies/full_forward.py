"""A network of another architecture, as the engine sees it: one sequence, token by token."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.policies.decoder import Decoder


class Plain:
    """A full forward at every token."""

    def __init__(self, network: Decoder) -> None:
        self.network = network

    def begin(self, tokens: np.ndarray) -> tuple[Tensor, Any]:
        sequence = [int(t) for t in tokens]
        return self.network(torch.tensor([sequence]))[0, -1], sequence

    def advance(self, state: Any, token: int) -> tuple[Tensor, Any]:
        return self.begin(np.array([*state, token]))
