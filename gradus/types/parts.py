"""The protocols of the parts, the task, the environment, and the operations for rollouts (`World`).

A part is a frozen dataclass of typed, documented fields with one method. A stateful part has `start() -> state`. The method of a stateful part takes
the state as its last argument, and returns the new state as its last value. State is plain: numbers, strings, lists, dictionaries, NumPy arrays or
tensors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gradus.types.environments import Closing, Episode, Errand, Forkable, Joint, Many, Restorable, Turn
from gradus.types.frozen import Frozen
from gradus.types.keys import Key
from gradus.types.moments import Moment
from gradus.types.records import Group, Outcome, Problem, Request, Trajectory
from gradus.types.signals import Signal
from gradus.types.tasks import Apart, Arms, Environment, OfSeveral, Source, Task, Together, Transitions, Verify, World

Signals = Mapping[Signal, Mapping[str, np.ndarray]]
"""Signal -> id of a trajectory -> rows, one per action of the trajectory (float32 [A, ...])."""


class Curriculum(Protocol):
    """Chooses the problems of each step. `start()` makes its state. `learn` is optional."""

    def choose(self, source: Source, count: int, world: World, state: Any) -> tuple[list[Request], Any]:
        """Returns (`count` requests for problems of the source, the new state)."""
        ...

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: Any) -> Any:
        """Returns the new state after a step. `groups`: the groups of the step's training; `dropped`: the groups that the selection dropped."""
        ...


class Rollout(Protocol):
    """A procedure that makes trajectories. If evaluation uses another rollout, the property `test` gives it."""

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Makes judged groups. A stateful rollout takes its state as the last argument, and returns (groups, state)."""
        ...


@dataclass(frozen=True)
class Judgement:
    """The combined reward of a trajectory, its components, and rewards of single actions: (context, action, component, value).

    `extra`: further values for users, stored with the trajectory.
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
    """Selects the groups, or the trajectories of a group, for training."""

    def keep(self, groups: Sequence[Group], key: Key) -> tuple[list[Group], list[Group]]:
        """Returns (kept groups, dropped groups)."""
        ...


@dataclass(frozen=True)
class Credited:
    """The advantages, returns and weights of one trajectory: float64 [A], over the actions of all its contexts in order.

    If the recipe trains no value model, `returns` is None. If a target has n numbers, the shape of `returns` is [A, n]. The weight of an action is its entry
    in `weights` (None: all 1), multiplied by the trajectory's weight. Every term of an objective uses these weights.
    """

    advantages: np.ndarray
    returns: np.ndarray | None = None
    weights: np.ndarray | None = None

    def weighted(self, weights: np.ndarray) -> Credited:
        """Returns the same credit with its weights multiplied by `weights` [A]."""
        return replace(self, weights=weights if self.weights is None else weights * self.weights)


@runtime_checkable
class Rounds(Protocol):
    """A selection that trains in rounds. In each round the run computes credit for the groups of this round and updates on them."""

    def rounds(self, kept: Sequence[Group], key: Key) -> Iterator[list[Group]]:
        """Gives the groups of each round, one round after another. A stateful selection takes its state as the last argument, and returns (rounds, state)."""
        ...


class Search(Protocol):
    """A procedure that answers problems with a trained policy at test time. A search has the method `run`, so a recipe can also use a search as a rollout."""

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
        """One `Credited` per trajectory, in the order of the groups. A credit rule never gets failed trajectories."""
        ...


class Update(Protocol):
    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Any], step: int, key: Key) -> dict[str, float]:
        """Updates the players that have a batch. Returns the step's metrics."""
        ...


class Schedule(Protocol):
    """Gives the recipe of each step. A schedule may declare its changes of fields (`sets`) and its events (`causes`); see `gradus.recipe.scheduled`."""

    def at(self, now: Moment, recipe: Any) -> Any:
        """Returns (the recipe of a step, the events before the step), or only the recipe if there are no events.

        `recipe`: the recipe of the run. A stateful schedule takes its state as the last argument, and returns (recipe, events, state).
        """
        ...


class Study(Protocol):
    """Evaluates during training. A study may have its own `reward`. A study may also have `target` or `patience`, which can end the run early."""

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]: ...


class Optimizer(Protocol):
    """Makes PyTorch's optimizer. The learner reads the properties of this part. With them it sets the learning rate at every step and clips the gradient."""

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
    "Apart",
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
    "Many",
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
