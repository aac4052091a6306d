"""Named heads on a trunk.

From the hidden state before each action, a head computes one number, or one number for each token of the vocabulary.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradus.types import Key, UserError

FILE = "value_head.safetensors"  # the file of a single linear head `value` with one number per action
SEVERAL = "heads.safetensors"  # the file of all other heads, with their names in its metadata


class Heads(nn.Module):
    """A head's output is weight . h + bias, in float32 at least.

    If the heads have their own hidden layer, h is relu(inner_weight hidden + inner_bias), else h is the hidden state of the trunk. `vocab`: the number of
    entries of a head
    over the vocabulary; None: a head gives one number. `bias`: whether the bias is trained; if not, it is 0, as in the sequence classifiers of transformers.
    Initial values are small: for hidden states of unit scale, the output has standard deviation 0.01.
    """

    def __init__(
        self,
        width: int,
        key: Key,
        outputs: tuple[str, ...] = ("value",),
        *,
        vocab: int | None = None,
        hidden: int = 0,
        bias: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.outputs, self.vocab, self.layer, self.biased = tuple(outputs), vocab, hidden, bias
        self.size = 1 if vocab is None else vocab
        read, rows = hidden or width, len(outputs) * self.size

        def parameter(values: Tensor) -> nn.Parameter:
            return nn.Parameter(values.to(device, dtype))

        if hidden:
            self.inner_weight = parameter(torch.from_numpy(key.fold("inner").normal(len(outputs), hidden, width)) / width**0.5)
            self.inner_bias = parameter(torch.zeros(len(outputs), hidden))
        self.weight = parameter(torch.from_numpy(key.normal(rows, read)) * (0.01 / read**0.5))
        if bias:
            self.bias = parameter(torch.zeros(rows))
        else:
            self.register_buffer("bias", torch.zeros(rows, dtype=dtype, device=device), persistent=False)

    bias: Tensor

    @property
    def plain(self) -> bool:
        """Whether there is only one linear head, `value`, with one number per action."""
        return self.outputs == ("value",) and self.vocab is None and not self.layer

    def forward(self, hidden: Tensor, name: str | None = None) -> Tensor:
        """Maps hidden states [U, width] to the output of the head `name` (None: the first head). The output is [U], or [U, vocab] for a head over the
        vocabulary."""
        index = self._index(name)
        part = slice(index * self.size, (index + 1) * self.size)
        weight, bias = _wide(self.weight[part], hidden), _wide(self.bias[part], hidden)
        found = self._inner(hidden, index) @ weight.T + bias
        return found.squeeze(-1) if self.vocab is None else found

    def chosen(self, hidden: Tensor, tokens: Tensor, name: str | None = None) -> Tensor:
        """Returns the entries [A] that a head over the vocabulary has for the tokens int64 [A]. No other entry is computed."""
        rows = tokens + self._index(name) * self.size
        weight = F.embedding(rows, self.weight)  # its backward pass is deterministic
        bias = F.embedding(rows, self.bias.unsqueeze(1)).squeeze(1)
        return (self._inner(hidden, self._index(name)) * _wide(weight, hidden)).sum(-1) + _wide(bias, hidden)

    def _index(self, name: str | None) -> int:
        return 0 if name is None else self.outputs.index(name)

    def _inner(self, hidden: Tensor, index: int) -> Tensor:
        x = _wide(hidden, hidden)
        if not self.layer:
            return x
        return torch.relu(x @ _wide(self.inner_weight[index], hidden).T + _wide(self.inner_bias[index], hidden))


def _wide(tensor: Tensor, like: Tensor) -> Tensor:
    return tensor.to(torch.float64 if like.dtype == torch.float64 else torch.float32)


class Critic(nn.Module):
    """A trunk and its heads as one network, so the trunk and the heads are trained and stored together."""

    def __init__(self, trunk: nn.Module, head: Heads) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head


def save_head(head: Heads, folder: Path) -> None:
    """Writes the heads into a model's folder.

    If there is only one plain head `value`, the file has the layout of reward models. Other heads are stored with their names.
    """
    from safetensors.torch import save_file

    tensors = {name: p.detach().cpu().contiguous() for name, p in head.named_parameters()}
    about = {"outputs": head.outputs, "vocab": head.vocab, "hidden": head.layer}
    if head.plain:
        save_file(tensors, folder / FILE)
    else:
        save_file(tensors, folder / SEVERAL, metadata={"heads": json.dumps(about)})


def names_of(folder: Path) -> tuple[str, ...] | None:
    """Returns the names of the heads with one number per action in a model's folder. Returns None if the folder has no such heads."""
    from safetensors import SafetensorError, safe_open

    if (folder / FILE).is_file():
        return ("value",)
    try:
        with safe_open(folder / SEVERAL, "pt") as opened:
            about = json.loads((opened.metadata() or {})["heads"])
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    return tuple(map(str, about["outputs"])) if about.get("vocab") is None else None


def load_head(folder: Path, width: int, *, dtype: torch.dtype, device: torch.device | str) -> Heads | None:
    """Loads the heads in a model's folder. Returns None if the folder has no heads. Raises UserError if the file does not fit the model."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    path = next((folder / name for name in (FILE, SEVERAL) if (folder / name).is_file()), None)
    if path is None:
        return None
    try:
        about: dict[str, Any] = {}
        if path.name == SEVERAL:
            with safe_open(path, "pt") as opened:
                about = json.loads((opened.metadata() or {})["heads"])
        outputs = tuple(str(name) for name in about.get("outputs", ("value",)))
        tensors = load_file(path, device=str(device))
        form: dict[str, Any] = {"vocab": about.get("vocab"), "hidden": about.get("hidden", 0), "bias": "bias" in tensors}
        head = Heads(width, Key(), outputs, **form, dtype=dtype, device=device)
        head.load_state_dict(tensors)
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError):
        raise UserError(f"{path} contains no value head for a model of width {width}; remove this file to start without a value head") from None
    return head
