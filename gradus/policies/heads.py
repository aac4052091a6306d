"""The scalar value head: the expected return, from the hidden state before each action."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from gradus.types import Key, UserError

FILE = "value_head.safetensors"


class ValueHead(nn.Module):
    """value = weight . hidden + bias, in float32 at least. Initial values are small: standard deviation 0.01 for hidden states of unit scale."""

    def __init__(self, width: int, key: Key, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> None:
        super().__init__()
        draws = torch.from_numpy(key.normal(1, width)) * (0.01 / width**0.5)
        self.weight = nn.Parameter(draws.to(device, dtype))
        self.bias = nn.Parameter(torch.zeros(1, dtype=dtype, device=device))

    def forward(self, hidden: Tensor) -> Tensor:
        """[U, hidden] to [U]."""
        wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        return (hidden.to(wide) @ self.weight.to(wide).T).squeeze(-1) + self.bias.to(wide)


class Critic(nn.Module):
    """A trunk and its value head as one network, so that both are trained and stored together."""

    def __init__(self, trunk: nn.Module, head: ValueHead) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head


def save_head(head: ValueHead, folder: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: p.detach().cpu().contiguous() for name, p in head.named_parameters()}, folder / FILE)


def load_head(folder: Path, width: int, *, dtype: torch.dtype, device: torch.device | str) -> ValueHead | None:
    """The value head in a model's folder, or None. Raises UserError if the file does not fit the model."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not (folder / FILE).is_file():
        return None
    head = ValueHead(width, Key(), dtype=dtype, device=device)
    try:
        head.load_state_dict(load_file(folder / FILE, device=str(device)))
    except (SafetensorError, RuntimeError):
        raise UserError(f"{folder / FILE} does not fit a model of width {width}; remove it to start without a value head") from None
    return head
