"""Selects the parameters of a player that learn, and a factor on the learning rate of each parameter.

The selection is by prefixes of the parameters' names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from torch import nn

from gradus.types import UserError, unknown
from gradus.types.players import Player

_LEADING = ("trunk", "model", "gate")  # first parts of a name that a prefix may omit


def under(name: str, prefix: str) -> bool:
    """Whether a parameter's name begins with a prefix. Only whole parts of the name are compared.

    If a name begins with `trunk.`, `model.` or `gate.`, the prefix may omit this part. Parts are joined by "." or "/". The field `rates` of a recipe uses "/",
    because a dot separates the names of fields in a recipe's paths.

    >>> under("model.layers.1.mlp.up_proj.weight", "layers.1"), under("model.layers.10.mlp.up_proj.weight", "layers.1")
    (True, False)
    """
    return _depth(name, prefix) >= 0


def _depth(name: str, prefix: str) -> int:
    """Returns the number of parts of a name up to the end of the prefix (0 for an empty prefix). Returns -1 if the name does not begin with the prefix."""
    parts = name.split(".")
    starts = [0, *(i + 1 for i in range(len(parts)) if all(p in _LEADING for p in parts[: i + 1]))]
    due = prefix.replace("/", ".").split(".")
    return 0 if not prefix else max((at + len(due) for at in starts if parts[at : at + len(due)] == due), default=-1)


def restrict(player: str, network: nn.Module, spec: Player) -> None:
    """Switches off the gradient of all parameters that `spec.trains` does not name. Raises UserError for a prefix that matches no parameter."""
    names = [name for name, p in network.named_parameters() if p.requires_grad]
    for prefix in spec.trains:
        if not any(under(name, prefix) for name in names):
            raise _unmatched(player, "trains", prefix, names)
    for name, p in network.named_parameters():
        if not any(under(name, prefix) for prefix in spec.trains):
            p.requires_grad_(False)


def factors(player: str, learning: Iterable[str], rates: Mapping[str, float]) -> list[float]:
    """Returns the factor on the learning rate for every learning parameter, in order. If several prefixes match a name, the prefix with the most parts
    counts.

    Raises UserError for a prefix that matches no learning parameter.
    """
    names = list(learning)
    for prefix in rates:
        if not any(under(name, prefix) for name in names):
            raise _unmatched(player, "rates", prefix, names)
    deepest = [max(rates, key=partial(_depth, name), default="") for name in names]
    return [rates[p] if rates and under(name, p) else 1.0 for name, p in zip(names, deepest, strict=True)]


def _unmatched(player: str, field: str, prefix: str, names: Iterable[str]) -> UserError:
    known = {".".join(parts[: i + 1]) for name in names for parts in (name.split("."),) for i in range(len(parts))}
    known |= {n.split(".", 1)[1] for n in known if n.split(".", 1)[0] in _LEADING and "." in n}
    of = "a parameter that learns" if field == "rates" else "a parameter"
    return unknown("prefix", prefix, known, f"players.{player}.{field} does not name {of}; write the first parts of a parameter's name, such as layers.1")
