"""Reads and writes the folder of a small network: config.json with the network's kind, and model.safetensors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from gradus.types import UserError


def save_network(network: nn.Module, config: Mapping[str, Any], folder: Path | str) -> None:
    """Writes config.json and model.safetensors."""
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({n: t.detach().cpu().contiguous() for n, t in network.state_dict().items()}, folder / "model.safetensors")


def fill_network(network: nn.Module, folder: Path) -> None:
    """Loads the weights in a folder. Raises UserError if the weights are missing or damaged, or if config.json describes other weights."""
    wanted, found = network.state_dict(), _weights(folder / "model.safetensors")
    if {n: t.shape for n, t in wanted.items()} != {n: t.shape for n, t in found.items()}:
        raise UserError(
            f"{folder / 'model.safetensors'} does not contain the weights that {folder / 'config.json'} describes; save the model again, or "
            "copy both files again"
        )
    network.load_state_dict(found)


def _weights(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise UserError(f"there is no {path}, but a model folder needs config.json and model.safetensors; copy or save the model again")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise UserError(f"{path} is damaged ({error}); copy or save the model again") from None
