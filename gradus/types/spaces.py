"""The observations and the actions of an environment. An action is text, a named choice, or numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Action: TypeAlias = str | int | np.ndarray
"""The action that an environment gets: text for Text, an index for Choice, float32 [d] or [chunk, d] for Box."""

Observation: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, np.ndarray]
"""The observation that an environment shows: text, messages (with media), or named arrays for a controller."""


INSERTED = "inserted"
"""The role of a message that continues the player's own turn. The text of this message follows the action directly, without the chat template."""


def inserted(text: str) -> Observation:
    """Returns an observation that is inserted into the player's own turn, such as the result of a tool in the middle of an answer."""
    return ({"role": INSERTED, "content": text},)


def text_inserted(observation: Observation) -> str | None:
    """Returns the text of an observation that `inserted` made; None for any other observation."""
    if isinstance(observation, str | Mapping) or len(observation) != 1 or observation[0].get("role") != INSERTED:
        return None
    return str(observation[0]["content"])


@dataclass(frozen=True)
class Text:
    """Free text. A language model writes it."""


@dataclass(frozen=True)
class Choice:
    """One of several named actions. A language model writes the name; a controller gives the index."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.names or len({name.strip().lower() for name in self.names}) != len(self.names):
            raise ValueError(f"the names of a Choice are {list(self.names)}; give one or more names that differ in more than case and outer spaces")

    def index(self, action: Action) -> int | None:
        """The index of an action that is given as an index or as text; None if the action fits no name. Case and surrounding space do not matter."""
        if isinstance(action, str):
            said = action.strip().lower()
            return next((i for i, name in enumerate(self.names) if name.strip().lower() == said), None)
        if np.size(action) != 1:
            return None
        number = float(np.asarray(action).item())
        return int(number) if number.is_integer() and 0 <= number < len(self.names) else None


@dataclass(frozen=True)
class Box:
    """Real numbers within bounds, [d]. If `chunk` is above 1, an action contains the next `chunk` steps together, [chunk, d]."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    chunk: int = 1

    def __post_init__(self) -> None:
        if not self.low or len(self.low) != len(self.high) or not all(a < b for a, b in zip(self.low, self.high, strict=True)):
            raise ValueError(
                f"the bounds of a Box are {list(self.low)} and {list(self.high)}; give as many lower bounds as upper bounds, at "
                "least one of each, and set each lower bound below its upper bound"
            )
        if self.chunk < 1:
            raise ValueError(f"the chunk of a Box is {self.chunk}; it must be 1 or more actions")

    @property
    def size(self) -> int:
        """The number of values per action (per step of a chunk)."""
        return len(self.low)


Space: TypeAlias = Text | Choice | Box


def described(space: Space) -> str:
    """A space in words, such as "3 x 2 numbers"."""
    if isinstance(space, Choice):
        return f"a choice of {len(space.names)} ({', '.join(space.names[:6])}{', ...' if len(space.names) > 6 else ''})"
    if isinstance(space, Box):
        return f"{space.size} numbers" if space.chunk == 1 else f"{space.chunk} x {space.size} numbers"
    return "text"


def in_words(action: Action, space: Space = Text()) -> str:
    """An action as readable text: the text itself, the name of a choice, or numbers with four significant digits."""
    if isinstance(action, str):
        return action
    if isinstance(space, Choice):
        index = space.index(action)
        return str(action) if index is None else space.names[index]
    return " ".join(f"{float(number):.4g}" for number in np.ravel(action))
