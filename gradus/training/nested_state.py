"""Finds stateful parts at any depth of a recipe, and wraps a stateful part (`Bound`) so that an outer part can call it like any other part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from gradus.types.returned import remembers, takes_state


class Bound:
    """A stateful part within another part. The methods of the wrapper take no state and return no state. All other attributes are the attributes of
    the part."""

    def __init__(self, part: Any, memory: Any, path: str) -> None:
        self.unbound, self._memory, self._path = part, memory, path

    def __getattr__(self, name: str) -> Any:
        if name in ("start", "learn"):  # only the memory calls these
            raise AttributeError(name)
        value = getattr(self.unbound, name)
        if takes_state(self.unbound, name):
            return partial(self._memory.ask, self._path, self.unbound, name)
        return Bound(value, self._memory, self._path) if is_part(value) and remembers(value) else value


ROOTS = ("curriculum", "rollout", "selection", "credit", "reward", "schedule", "update")
"""The fields of a recipe whose parts may have a state, in addition to players.NAME.credit and players.NAME.selection."""


def roots(recipe: Any) -> Iterator[tuple[str, Any]]:
    """Gives (path, part) for every part of a recipe that may have a state or may contain parts with a state.

    The path `credit` belongs to the policy's credit rule, even if the player `policy` has its own rule.
    """
    players = getattr(recipe, "players", {})
    own = getattr(players.get("policy"), "credit", None)
    for place in ROOTS:
        yield place, own if place == "credit" and own is not None else getattr(recipe, place, None)
    for name, player in players.items():
        for field in ("credit", "selection"):
            if (name, field) != ("policy", "credit"):
                yield f"players.{name}.{field}", getattr(player, field, None)


def stateful(path: str, part: Any) -> Iterator[tuple[str, Any]]:
    """Gives (path, part) for the part itself, if it is stateful, and for every stateful part within it. Outer parts come before inner parts."""
    if is_part(part) and remembers(part):
        yield path, part
    yield from stateful_within(path, part)


def stateful_within(path: str, part: Any) -> Iterator[tuple[str, Any]]:
    """Gives (path, part) for every stateful part within a part."""
    if isinstance(part, Mapping):
        inside = part.items()
    elif isinstance(part, tuple):
        inside = ((str(i), value) for i, value in enumerate(part))  # type: ignore[assignment]
    elif is_part(part):
        inside = ((f.name, getattr(part, f.name)) for f in fields(part) if f.compare)  # type: ignore[assignment]
    else:
        return
    for name, value in inside:
        yield from stateful(f"{path}.{name}", value)


def is_part(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)
