"""A bandit that chooses kinds of problems by an upper confidence bound.

The bound is the mean of recent |advantages| plus a bonus for kinds with few answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.curricula.bandit import arms_of, boltzmann, draw_by_arm, magnitudes
from gradus.types import Group, Request
from gradus.types.parts import Source, Task, World
from gradus.types.ranges import check_ranges


def upper_bounds(means: Sequence[float], answers: Sequence[int], exploration: float = 1.0) -> np.ndarray:
    """Returns mean + exploration * sqrt(2 ln(N + 1) / (n + 1)) for each arm [arms]. Here n is the number of answers of the arm, and N the number of all answers.

    >>> upper_bounds([0.8, 0.2], [100, 100]).round(4).tolist()
    [1.1241, 0.5241]
    """
    counts = np.asarray(answers, dtype=np.float64)
    return np.asarray(means, dtype=np.float64) + exploration * np.sqrt(2 * math.log(counts.sum() + 1) / (counts + 1))


@dataclass(frozen=True)
class UpperBound:
    """For each request, draws an arm (a kind of problem) with probability softmax(b / tau), where b is the arm's upper bound. Takes the next problem of this arm.

    The upper bound of an arm is the mean of its last `window` |advantages| plus `exploration` * sqrt(2 ln(N + 1) / (n + 1)). Here n is the number of answers to
    the arm so far, and N is the number of all answers so far. If an arm has no answer, its mean is 0. Groups that the selection dropped count with advantage 0.
    An arm is a kind of problem that the source names (`types.parts.Arms`), as for `Bandit`.
    """

    tau: float = 0.1  # temperature of the choice; 0: always the best arm
    window: int = 300  # for each arm, the |advantages| of this number of last answers are kept
    exploration: float = 1.0  # weight of the bonus
    arms: tuple[str, ...] = ()  # the arms to choose from; empty: all arms of the source
    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, tau="[0, inf]", window="[1, inf)", exploration="[0, inf)", group="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's source has no arms, or if the source lacks an arm that `arms` names."""
        arms_of(self, task.source)

    def start(self) -> dict[str, Any]:
        return {"recent": {}, "answers": {}, "drawn": {}}

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests.

        The state contains, for every arm, its recent |advantages|, its number of answers, and the number of its problems that were drawn.

        Raises UserError if the source has no arms, or if the source lacks an arm that `arms` names.
        """
        arms = arms_of(self, source)
        chances = boltzmann(self.bounds(arms, state), self.tau)
        problems, drawn = draw_by_arm(source, arms, chances, count, world, state["drawn"])  # type: ignore[arg-type]
        return [Request(problem, count=self.group or world.group) for problem in problems], {**state, "drawn": drawn}

    def bounds(self, arms: Sequence[str], state: dict[str, Any]) -> np.ndarray:
        """Returns the upper confidence bound of each arm [arms]."""
        recent = [state["recent"].get(arm, []) for arm in arms]
        means = [float(np.mean(values)) if values else 0.0 for values in recent]
        return upper_bounds(means, [state["answers"].get(arm, 0) for arm in arms], self.exploration)

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state after a step: the |advantages| of the step are added."""
        recent, answers = dict(state["recent"]), dict(state["answers"])
        for arm, values in magnitudes((*groups, *dropped)).items():
            recent[arm] = [*recent.get(arm, []), *values][-self.window :]
            answers[arm] = answers.get(arm, 0) + len(values)
        return {**state, "recent": recent, "answers": answers}
