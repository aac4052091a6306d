"""Draws problems by a window that moves over the problems in a sorted order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.types import Group, Key, Problem, Request, UserError
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges


class Order(Protocol):
    """Gives the numbers by which the problems are sorted. The sorting happens once, before training."""

    async def values(self, problems: Sequence[Problem], world: World) -> np.ndarray:
        """Returns one number per problem [N]. The problem with the smallest number comes first."""
        ...


class Pace(Protocol):
    """Decides how far the centre of the window moves after an epoch."""

    async def measure(self, groups: Sequence[Group], world: World) -> Mapping[str, float]:
        """Returns named numbers that are measured on the groups of a step.

        The numbers of an epoch are averages over its steps. Each step is weighted by its number of groups.
        """
        ...

    def distance(self, measured: Mapping[str, float], size: int) -> float:
        """Returns the distance in problems, 0 or more. `measured`: the averages of the epoch; `size`: the number of sorted problems."""
        ...


@dataclass(frozen=True)
class Column:
    """Sorts problems by a number in their column `name`, such as their difficulty."""

    name: str = "difficulty"
    descending: bool = False

    async def values(self, problems: Sequence[Problem], world: World) -> np.ndarray:
        """Returns the numbers of the column [N]. Raises UserError if a problem has no number in this column."""
        found = [p.meta.get(self.name) for p in problems]
        for problem, value in zip(problems, found, strict=True):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise UserError(
                    f"curriculum.by is Column, but problem {problem.id} has no number in the column {self.name}; name another column, or take "
                    "another task"
                )
        return np.array(found, dtype=np.float64) * (-1 if self.descending else 1)


def accuracy(groups: Sequence[Group]) -> float:
    """Returns the mean over groups of the share of right answers. An answer without a reward counts as wrong."""
    return float(np.mean([float(np.mean([t.right for t in g.trajectories])) for g in groups if g.trajectories] or [0.0]))


@dataclass(frozen=True)
class WhenSolved:
    """Moves the window by step * size * tanh(alpha (accuracy - target)) problems. The window does not move if the accuracy of the epoch is below `target`."""

    target: float = 0.5
    alpha: float = 2.0
    step: float = 0.1  # largest move, as a share of all problems

    def __post_init__(self) -> None:
        check_ranges(self, target="[0, 1]", alpha="(0, inf)", step="[0, 1]")

    async def measure(self, groups: Sequence[Group], world: World) -> Mapping[str, float]:
        return {"accuracy": accuracy(groups)}

    def distance(self, measured: Mapping[str, float], size: int) -> float:
        return self.step * size * max(0.0, math.tanh(self.alpha * (measured["accuracy"] - self.target)))


def log_weights(size: int, center: float, width: float) -> np.ndarray:
    """Returns -(i - center)^2 / (2 width^2) for the places i = 0 ... size - 1 [size]. An infinite width gives equal weights."""
    return -np.square((np.arange(size) - center) / width) / 2


def drawn_places(weights: np.ndarray, count: int, key: Key) -> np.ndarray:
    """Draws `count` different places. The places are drawn one after another, in proportion to exp(weight) among the places that are left.

    Returns the places in ascending order [count].

    The function takes the places with the largest values of weight - ln(-ln u). Here u is a uniform number per place, drawn from a key.
    """
    u = np.clip(key.uniform(len(weights)), 1e-300, 1 - 1e-16)
    return np.sort(np.argsort(-(weights - np.log(-np.log(u))), kind="stable")[:count])


@dataclass(frozen=True)
class Window:
    """Sorts the problems once. Draws the problems of each epoch by a normal distribution over their places in the sorted order.

    An epoch has `epoch` different problems. Place i is drawn in proportion to exp(-(i - center)^2 / (2 (width * size)^2)). The center begins at place
    0. After each epoch the center moves on by the distance that `pace` gives, at most to the last place. It never moves back. Within an epoch, the problems
    have the order of `ShuffledEpochs`. So if `epoch` is the number of all problems, the curriculum gives the same problems as `ShuffledEpochs`.

    Metrics: `window` is the center as a share of all places. For each number NAME of the pace, `window/NAME` is its average over the last epoch.
    """

    by: Order = Column()
    pace: Pace = WhenSolved()
    width: float = 0.1  # standard deviation of the window, as a share of all problems; inf: all problems are equally likely
    epoch: int = 32  # problems per epoch, at most the number of all problems
    pool: int = 256  # number of sorted problems, if the task generates problems without end
    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, width="(0, inf]", epoch="[1, inf)", pool="[1, inf)", group="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"order": None, "center": 0.0, "epochs": 0, "left": [], "groups": 0, "measured": {}}

    async def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state contains the sorted order, the center, and the problems that are left of the epoch.

        Raises UserError if the numbers of `by` are not one finite number per problem.
        """
        size = self.pool if source.size is None else source.size
        state = {**state, "left": list(state["left"])}
        if state["order"] is None:
            state["order"] = await self._sorted(source, size, world)
        chosen: list[int] = []
        while len(chosen) < count:
            if not state["left"]:
                state = {**state, "left": self._next(source, size, world, state), "epochs": state["epochs"] + 1}
            taken = min(count - len(chosen), len(state["left"]))
            chosen, state["left"] = chosen + state["left"][:taken], state["left"][taken:]
        world.note("window", state["center"] / max(size - 1, 1))
        problems = self._drawn(source, list(dict.fromkeys(chosen)), world)
        return [Request(problems[i], count=self.group or world.group) for i in chosen], state

    async def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state after a step: the numbers of the step are added. If the epoch is over, the center moves on."""
        every = [g for g in (*groups, *dropped) if g.trajectories]
        if not every:
            return state
        found = await self.pace.measure(every, world)
        before, here = state["groups"], len(every)
        means = {n: (state["measured"].get(n, 0.0) * before + float(v) * here) / (before + here) for n, v in found.items()}
        if state["left"] or state["order"] is None:
            return {**state, "groups": before + here, "measured": means}
        for name, mean in means.items():
            world.note(f"window/{name}", mean)
        size = len(state["order"])
        center = min(state["center"] + self.pace.distance(means, size), float(size - 1))
        return {**state, "center": center, "groups": 0, "measured": {}}

    async def _sorted(self, source: Source, size: int, world: World) -> list[int]:
        problems = self._drawn(source, list(range(size)), world)
        values = np.asarray(await self.by.values(list(problems.values()), world), dtype=np.float64)
        if values.shape != (size,) or not np.isfinite(values).all():
            raise UserError(
                f"{type(self.by).__name__}.values returned numbers of shape {list(values.shape)} for {size} problems; it must return one finite "
                "number per problem"
            )
        return [int(i) for i in np.argsort(values, kind="stable")]

    def _next(self, source: Source, size: int, world: World, state: dict[str, Any]) -> list[int]:
        """Draws the problems of an epoch. Returns their indices in the source."""
        number = state["epochs"]
        weights = log_weights(size, state["center"], self.width * size)
        places = drawn_places(weights, min(self.epoch, size), world.seed.fold("window", number))
        taken = {state["order"][place] for place in places}
        order = range(size) if source.size is None else sweep_order(size, range(number * size, (number + 1) * size), world.seed)
        return [i for i in order if i in taken]

    def _drawn(self, source: Source, indices: list[int], world: World) -> dict[int, Problem]:
        return dict(zip(indices, problems_at(source, indices, world), strict=True))
