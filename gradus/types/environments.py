"""Environments: episodes, their turns, and what an episode may also do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from gradus.types.frozen import Frozen
from gradus.types.keys import Key
from gradus.types.spaces import Observation


@dataclass(frozen=True)
class Turn:
    """The answer of an environment to an action. Terminated or truncated, never both."""

    observation: Observation
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    player: str = "policy"  # the seat that acts next (rollout Seats); other rollouts have one seat
    rewards: Mapping[str, float] = field(default_factory=Frozen)  # of several seats, by player, besides `reward` of the one that acted
    state: str | None = None  # a key of the state in which the next action is taken; equal keys mean equal states
    valid: bool = True  # False: the action just taken was not legal
    errand: Errand | None = None  # work for a sub-agent; its finding takes the place of `observation`, which players without one see
    info: Mapping[str, Any] = field(default_factory=Frozen)  # for people only; it has no effect


@dataclass(frozen=True)
class Errand:
    """Work that an episode hands to a sub-agent: an episode of its own, played in a context of its own that the sender never sees.

    The finding is the last observation of that episode if its environment ended it (`Turn.terminated`), else `otherwise`.
    """

    role: str  # the kind of sub-agent, such as "explorer"; the rollout says which player it is
    prompt: str  # what the sub-agent reads before the first observation of its episode
    episode: Episode = field(repr=False, compare=False)
    otherwise: str = ""  # the finding if the sub-agent is cut off


class Episode(Protocol):
    """One running episode. `first`: the observation before the first action.

    It may also be `Forkable`, `Closing`, `Restorable` or `Joint`; a part that needs one of these asks for it.
    """

    first: Turn

    async def step(self, action: Any) -> Turn: ...


@runtime_checkable
class Forkable(Protocol):
    """An episode that can be copied."""

    def fork(self, key: Key) -> Episode:
        """An independent episode in the same state; `key` draws what is random from now on."""
        ...


@runtime_checkable
class Closing(Protocol):
    """An episode that holds something open (a page, a kernel). The rollout closes every episode once, whatever happened."""

    async def close(self) -> None: ...


@runtime_checkable
class Restorable(Protocol):
    """An episode whose state can be taken and put back."""

    def snapshot(self) -> Any:
        """The state as plain values: numbers, text, lists, dictionaries, arrays."""
        ...

    def restore(self, snapshot: Any) -> None: ...


@runtime_checkable
class Joint(Protocol):
    """An episode in which several seats act at the same time."""

    def acting(self) -> Mapping[str, Observation]:
        """The observation of every seat that acts now, by player."""
        ...

    async def step_all(self, actions: Mapping[str, Any]) -> Turn:
        """The turn after the actions of all seats that acted."""
        ...
