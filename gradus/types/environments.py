"""The protocols of an environment's episodes, and the turns that an episode returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from gradus.types.frozen import Frozen
from gradus.types.keys import Key
from gradus.types.spaces import Observation


@dataclass(frozen=True)
class Turn:
    """The answer of an environment to an action. At most one of `terminated` and `truncated` is True."""

    observation: Observation
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    player: str = "policy"  # the player that acts next, in the rollout `Seats`; other rollouts have a single player
    rewards: Mapping[str, float] = field(default_factory=Frozen)  # rewards of the other players, by name; `reward` is for the player that acted
    state: str | None = None  # identifies the state before the next action: equal texts mean equal states
    valid: bool = True  # False: the last action was not legal
    steps: tuple[float, ...] = ()  # after a chunk of actions: the reward of each executed action, in order; `reward` is their sum. Empty: one action
    errand: Errand | None = None  # work for a sub-agent. The finding replaces `observation`; a player without sub-agents sees `observation`
    calls: tuple[tuple[str, bool], ...] = ()  # the tools that the action called, in order: (name, whether the call returned a result)
    info: Mapping[str, Any] = field(default_factory=Frozen)  # only for people to read; no code reads it


@dataclass(frozen=True)
class Errand:
    """Work that an episode gives to a sub-agent. The sub-agent plays its own episode in its own context, and the sender never sees this context.

    The finding is the last observation of the sub-agent's episode if the environment ended this episode (`Turn.terminated`), else `otherwise`.
    """

    role: str  # the kind of sub-agent, such as "explorer"; the rollout names its player
    prompt: str  # the text that the sub-agent reads before the first observation of its episode
    episode: Episode = field(repr=False, compare=False)
    otherwise: str = ""  # the finding if the sub-agent's episode is cut


class Episode(Protocol):
    """One running episode. `first`: the turn with the first observation, before any action.

    An episode may also be `Forkable`, `Closing`, `Restorable` or `Joint`. A part that needs one of these abilities declares this need.
    """

    first: Turn

    async def step(self, action: Any) -> Turn: ...


@runtime_checkable
class Forkable(Protocol):
    """An episode that can be copied."""

    def fork(self, key: Key) -> Episode:
        """Makes an independent episode in the same state. The new episode takes all its later random draws from `key`."""
        ...


@runtime_checkable
class Closing(Protocol):
    """An episode that keeps a resource open, such as a page or a kernel. The rollout always closes every episode once."""

    async def close(self) -> None: ...


@runtime_checkable
class Restorable(Protocol):
    """An episode whose state can be read and restored."""

    def snapshot(self) -> Any:
        """The state as plain values: numbers, text, lists, dictionaries, arrays."""
        ...

    def restore(self, snapshot: Any) -> None: ...


@runtime_checkable
class Many(Protocol):
    """An environment that steps several episodes in one call, such as a simulator on a GPU. The rollout `Pipelined` makes such calls."""

    async def step_many(self, episodes: Sequence[Any], actions: Sequence[Any]) -> Sequence[Turn]:
        """Executes one action in each episode. Returns the turns in the same order."""
        ...


@runtime_checkable
class Joint(Protocol):
    """An episode in which several players act at the same time."""

    def acting(self) -> Mapping[str, Observation]:
        """The observations of the players that act now: player -> observation."""
        ...

    async def step_all(self, actions: Mapping[str, Any]) -> Turn:
        """Executes the actions of all players that act now, and returns the next turn."""
        ...
