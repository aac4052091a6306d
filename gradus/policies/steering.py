"""Steering vectors: a layer gets a trained vector s, which is added to the layer's output h. All other weights are frozen.

With a gate the vector is scaled by sigmoid(w . h + b), one number per token. A file in the model's folder stores the vectors by layer, without
pickle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from gradus.policies.decoder import Decoder
from gradus.types import UserError

FILE = "steering.safetensors"


class Steer(nn.Module):
    """Computes h + s, or h + sigmoid(w . h + b) s.

    The vector s begins at 0, so the model's outputs do not change at first. The parameters w and b also begin at 0.
    """

    def __init__(self, like: Tensor, gate: bool) -> None:
        super().__init__()
        self.vector = nn.Parameter(like.new_zeros(like.shape[-1]))
        self.weight = nn.Parameter(like.new_zeros(like.shape[-1])) if gate else None
        self.bias = nn.Parameter(like.new_zeros(())) if gate else None

    def forward(self, x: Tensor) -> Tensor:
        if self.weight is None or self.bias is None:
            return x + self.vector
        return x + torch.sigmoid((x * self.weight).sum(-1, keepdim=True) + self.bias) * self.vector


def steered(decoder: Decoder, layers: Sequence[int], gate: bool) -> Decoder:
    """Returns a decoder with a vector on each of `layers` (empty: all layers).

    The other weights of the result are the frozen weights of `decoder`, in the same memory.

    Raises UserError if the model lacks a layer, or if the decoder already has vectors or an adapter.
    """
    if any(name.rpartition(".")[2] in ("vector", "lora_A") for name, _ in decoder.named_parameters()):
        raise UserError("this model already has an adapter or steering vectors; merge or remove these weights first")
    count = len(decoder.layers)
    if missing := [layer for layer in layers if not 0 <= layer < count]:
        raise UserError(f"steering names layer {missing[0]}, but the model has the layers 0 to {count - 1}; choose from these layers")
    with torch.device("meta"):
        made = Decoder(decoder.config)
    made.load_state_dict({name: p.detach() for name, p in decoder.named_parameters()}, assign=True)
    made.requires_grad_(False)
    for index in layers or range(count):
        made.layers[index].steer = Steer(decoder.head_weight.detach(), gate)
    return made


def vectors(decoder: nn.Module) -> Iterator[tuple[str, Steer]]:
    """Yields the steering modules with their names."""
    return ((name, module) for name, module in decoder.named_modules() if isinstance(module, Steer))


def save_steering(decoder: Decoder, folder: Path) -> None:
    from safetensors.torch import save_file

    held = {i: layer.steer for i, layer in enumerate(decoder.layers) if isinstance(layer.steer, Steer)}
    tensors = {f"{i}.{name}": p.detach().cpu().contiguous() for i, steer in held.items() for name, p in steer.named_parameters()}
    gate = any(steer.weight is not None for steer in held.values())
    save_file(tensors, folder / FILE, metadata={"steering": json.dumps({"layers": sorted(held), "gate": gate})})


def load_steering(decoder: Decoder, folder: Path) -> Decoder:
    """Returns the decoder with the vectors in a folder; the decoder itself if the folder has no such file.

    Raises UserError if the file does not fit the model.
    """
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    path = folder / FILE
    if not path.is_file():
        return decoder
    try:
        with safe_open(path, "pt") as opened:
            about = json.loads((opened.metadata() or {})["steering"])
        made = steered(decoder, [int(i) for i in about["layers"]], bool(about["gate"]))
        tensors = load_file(path, device=str(decoder.device))
        for index, layer in enumerate(made.layers):
            if isinstance(layer.steer, Steer):
                layer.steer.load_state_dict({n: tensors[f"{index}.{n}"] for n, _ in layer.steer.named_parameters()})
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} does not fit this model ({str(error).splitlines()[0]:.80}); remove this file to load the model without steering") from None
    return made
