"""The protocols of the parts, the task, the environment and the world.

A part is a frozen dataclass of typed, documented fields with one method. A stateful part has `start() -> state`; its method then takes the
state as last argument and returns it as last value. State is plain: numbers, strings, lists, dictionaries, NumPy arrays or tensors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gradus.types.environments import Closing, Episode, Errand, Forkable, Joint, Restorable, Turn
from gradus.types.frozen import Frozen
from gradus.types.keys import Key
from gradus.types.moments import Moment
from gradus.types.records import Group, Outcome, Problem, Request, Trajectory
from gradus.types.signals import Signal
from gradus.types.tasks import Arms, Environment, OfSeveral, Source, Task, Together, Transitions, Verify, World

Signals = Mapping[Signal, Mapping[str, np.ndarray]]
"""signal -> trajectory id -> rows, one per action of the trajectory (float32 [A, ...])."""


class Curriculum(Protocol):
    """The choice of problems. It has a state, made by `start()`; `learn` may be left out."""

    def choose(self, source: Source, count: int, world: World, state: Any) -> tuple[list[Request], Any]:
        """(`count` requests for problems of the source, the new state)."""
        ...

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: Any) -> Any:
        """The new state after a step: `groups` are those that were trained on, `dropped` those that the selection left out."""
        ...


class Rollout(Protocol):
    """A procedure that makes trajectories. If training needs more than test time does, the property `test` is the rollout for test time."""

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Judged groups. A stateful rollout takes its state last and returns (groups, state)."""
        ...


@dataclass(frozen=True)
class Judgement:
    """The combined reward of a trajectory, its components, and rewards of single actions: (context, action, component, value).

    `extra`: further values for people, stored with the trajectory.
    """

    reward: Outcome
    components: Mapping[str, Outcome] = field(default_factory=Frozen)
    steps: tuple[tuple[int, int, str, float], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=Frozen)


class Reward(Protocol):
    """Judges trajectories. `needs`: the signals that `score` gets."""

    @property
    def needs(self) -> tuple[Signal, ...]: ...

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """One judgement per trajectory, in the order of the groups."""
        ...


class Selection(Protocol):
    """Decides which groups, or which trajectories of a group, are trained on."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        """(kept, dropped)."""
        ...


@dataclass(frozen=True)
class Credited:
    """Advantages, returns and weights of one trajectory, float64 [A] over its contexts in order.

    `returns` is None if no value is fitted to them; targets of several numbers are [A, n]. `weights` (None: all 1) multiply the trajectory's
    weight; every term of an objective heeds them.
    """

    advantages: np.ndarray
    returns: np.ndarray | None = None
    weights: np.ndarray | None = None


@runtime_checkable
class Rounds(Protocol):
    """A selection that trains in rounds: each round is credited and updated on its own groups."""

    def rounds(self, kept: Sequence[Group], key: Key) -> Iterator[list[Group]]:
        """The groups of each round. A stateful selection takes its state last and returns (rounds, state)."""
        ...


class Search(Protocol):
    """A procedure that answers problems with a trained policy at test time. Its `run` makes it usable as a rollout."""

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """One judged answer to one problem."""
        ...

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """`request.count` judged answers per problem."""
        ...


class Credit(Protocol):
    """Gives every action its advantage. `needs`: the signals that `assign` gets."""

    @property
    def needs(self) -> tuple[Signal, ...]: ...

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        """One `Credited` per trajectory, in the order of the groups. Failed trajectories never reach a credit rule."""
        ...


class Update(Protocol):
    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Any], step: int, key: Key) -> dict[str, float]:
        """Moves the players that have a batch. Returns the step's metrics."""
        ...


class Schedule(Protocol):
    """The recipe of each step. It may have `sets` and `causes`, which say beforehand what it does (`gradus.recipe.scheduled`)."""

    def at(self, now: Moment, recipe: Any) -> Any:
        """(the recipe of a step, the events before the step); the recipe alone stands for no events.

        `recipe`: that of the run. A stateful schedule takes its state last and returns (recipe, events, state).
        """
        ...


class Study(Protocol):
    """Evaluation while training. It may have a `reward` of its own, and `target` or `patience`, which end a run early."""

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]: ...


class Optimizer(Protocol):
    """Makes PyTorch's optimizer. The learner sets its rate at every step, and clips the gradient, by these numbers."""

    @property
    def lr(self) -> float | None: ...
    @property
    def clip(self) -> float | None: ...
    @property
    def warmup(self) -> int | None: ...
    @property
    def decay(self) -> str: ...
    @property
    def final(self) -> float: ...

    def build(self, parameters: Any) -> Any: ...


RewardFunction = Callable[..., "Sequence[float | None] | Awaitable[Sequence[float | None]]"]
"""TRL's signature: prompts, completions, completion_ids, data columns as keywords, **kwargs."""

__all__ = [
    "Arms",
    "Closing",
    "Credit",
    "Credited",
    "Curriculum",
    "Environment",
    "Episode",
    "Errand",
    "Forkable",
    "Joint",
    "Judgement",
    "OfSeveral",
    "Optimizer",
    "Restorable",
    "Reward",
    "RewardFunction",
    "Rollout",
    "Rounds",
    "Schedule",
    "Search",
    "Selection",
    "Signals",
    "Source",
    "Study",
    "Task",
    "Together",
    "Trajectory",
    "Transitions",
    "Turn",
    "Update",
    "Verify",
    "World",
]
