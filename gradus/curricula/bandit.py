"""A bandit that chooses the kind of each problem: it draws a kind more often if the last advantages on this kind were large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.types import Group, Key, Problem, Request, UserError
from gradus.types.parts import Arms, Source, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_drawn


def boltzmann(values: Sequence[float] | np.ndarray, tau: float) -> np.ndarray:
    """Returns probabilities [arms] proportional to exp(value / tau). With tau 0, the probability is divided equally among the arms with the largest value.

    >>> boltzmann([1.0, 0.0], 1.0).round(3).tolist()
    [0.731, 0.269]
    """
    values = np.asarray(values, dtype=np.float64)
    if tau == 0:
        best = values == values.max()
        return np.asarray(best / best.sum())
    scores = np.exp((values - values.max()) / tau)
    return np.asarray(scores / scores.sum())


def magnitudes(groups: Sequence[Group]) -> dict[str, list[float]]:
    """Maps every arm to a list with one number for each of its trajectories: the mean |advantage| over the trajectory's actions.

    A trajectory without advantages counts as 0.

    Failed and untrained trajectories do not count.
    """
    found: dict[str, list[float]] = {}
    for group in groups:
        for t in group.trajectories:
            arm = t.problem.meta.get("arm")
            if arm is not None and t.trained and t.failed is None:
                found.setdefault(str(arm), []).append(float(np.abs(t.advantages).mean()) if t.advantages is not None and t.actions else 0.0)
    return found


def mean_magnitude(groups: Sequence[Group]) -> dict[str, float]:
    """Maps every arm to the mean of its `magnitudes`."""
    return {arm: float(np.mean(values)) for arm, values in magnitudes(groups).items()}


def arms_of(part: Any, source: Source) -> tuple[str, ...]:
    """Returns the arms among which the curriculum `part` chooses: those in its field `arms`, or all arms of the source.

    Raises UserError if the source has no arms, or if the source lacks an arm that `part` names.
    """
    if not isinstance(source, Arms):
        raise UserError(
            f"the curriculum {type(part).__name__} chooses between kinds of problems, but the source of this task names no kinds; take a mixture "
            "or a generated task with levels, or give the source `arms` and `draw_arm`"
        )
    if lacking := [arm for arm in part.arms if arm not in source.arms]:
        raise UserError(f'curriculum.arms names "{lacking[0]}", which the task does not have; choose from {", ".join(source.arms)}')
    return part.arms or source.arms


def draw_by_arm(
    source: Arms, arms: Sequence[str], chances: np.ndarray, count: int, world: World, drawn: Mapping[str, int]
) -> tuple[list[Problem], dict[str, int]]:
    """Draws an arm `count` times, and takes the arm's next problem each time.

    Returns the problems, and for each arm the number of problems that were drawn so far.

    `chances`: the probability of each arm, which becomes the metric arm/NAME.
    """
    picks = np.searchsorted(np.cumsum(chances)[:-1], _numbers(world, drawn, count), side="right")
    found, after = dict[int, Problem](), dict(drawn)
    for place, arm in enumerate(arms):
        mine = np.flatnonzero(picks == place).tolist()
        if not mine:
            continue
        first = int(after.get(arm, 0))
        indices = list(range(first, first + len(mine)))
        problems = source.draw_arm(arm, indices, None, world.seed.fold("problems", arm))
        check_drawn(source, problems, indices)
        found |= dict(zip(mine, problems, strict=True))
        after[arm] = first + len(mine)
    for arm, chance in zip(arms, chances, strict=True):
        world.note(f"arm/{arm}", float(chance))
    return [found[i] for i in range(count)], after


@dataclass(frozen=True)
class Bandit:
    """For each request, draws an arm (a kind of problem) with probability softmax(Q / tau), and takes the next problem of this arm.

    After a step Q(arm) <- alpha r + (1 - alpha) Q(arm), where r is the mean of |advantage| over the arm's rollouts. The Q of an arm that was not drawn does not
    change. Groups that the selection dropped count with advantage 0, because no update used these groups. An arm is a kind of problem that the source names
    (`types.parts.Arms`). Examples are a level of a generated task, and a level of one task of a mixture.
    """

    alpha: float = 0.5  # weight of the newest step
    tau: float = 1.0  # temperature of the choice; 0: always the best arm
    arms: tuple[str, ...] = ()  # the arms to choose from; empty: all arms of the source
    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, alpha="[0, 1]", tau="[0, inf]", group="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's source has no arms, or if the source lacks an arm that `arms` names."""
        arms_of(self, task.source)

    def start(self) -> dict[str, dict[str, float]]:
        return {"values": {}, "drawn": {}}

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state contains, for every arm, its value and the number of its problems that were drawn so far.

        Raises UserError if the source has no arms, or if the source lacks an arm that `arms` names.
        """
        arms = arms_of(self, source)
        chances = boltzmann([state["values"].get(arm, 0.0) for arm in arms], self.tau)
        problems, drawn = draw_by_arm(source, arms, chances, count, world, state["drawn"])  # type: ignore[arg-type]
        return [Request(problem, count=self.group or world.group) for problem in problems], {**state, "drawn": drawn}

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state with new values for the arms that were drawn."""
        values = dict(state["values"])
        for arm, reward in mean_magnitude((*groups, *dropped)).items():
            values[arm] = self.alpha * reward + (1 - self.alpha) * values.get(arm, 0.0)
        return {**state, "values": values}


def _numbers(world: World, drawn: Mapping[str, int], count: int) -> np.ndarray:
    """Draws `count` numbers in [0, 1). A number depends only on the run's key and on the number of problems that were drawn before."""
    before = int(sum(drawn.values()))
    key: Key = world.seed.fold("arms")
    return np.array([float(key.fold(before + i).uniform()) for i in range(count)])
