"""Draws the kinds of problems by a fixed mixture, or by the mixture with the best predicted score. The prediction is a fit to earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gradus.curricula.bandit import arms_of, draw_by_arm
from gradus.curricula.surrogate import Surrogate
from gradus.types import Request, UserError
from gradus.types.parts import Source, Task, World
from gradus.types.ranges import check_ranges


@lru_cache(maxsize=16)  # every step calls this function
def best_of(trials: tuple[tuple[tuple[float, ...], float], ...], ridge: float) -> np.ndarray:
    """Returns the mixture [K] with the highest predicted score. The prediction is a fit to these runs."""
    tried = np.array([w for w, _ in trials], dtype=np.float64)
    fitted = Surrogate.fit(tried / tried.sum(1, keepdims=True), np.array([score for _, score in trials]), ridge=ridge)
    return fitted.best(tried.shape[1])


@dataclass(frozen=True)
class ByMixture:
    """For each request, draws an arm (a kind of problem) with the probabilities of the mixture, and takes the next problem of this arm.

    The mixture is `weights`. Without weights, `Surrogate` predicts scores from `trials`, and the mixture with the highest predicted score is used. Without
    weights and trials, the mixture is uniform.
    """

    weights: tuple[float, ...] = ()  # one weight per arm; only the proportions of the weights count
    trials: tuple[tuple[tuple[float, ...], float], ...] = ()  # (mixture, score) of each finished run
    arms: tuple[str, ...] = ()  # the arms to choose from; empty: all arms of the source
    ridge: float = 0.001
    group: int | None = None  # samples per problem; None: `group` of the setting

    def __post_init__(self) -> None:
        check_ranges(self, ridge="(0, inf)", group="[1, inf)")
        if self.weights and self.trials:
            raise UserError("ByMixture has both `weights` and `trials`; give only `weights` for a trial run, or only `trials` for the final run")
        for row in (self.weights, *(w for w, _ in self.trials)):
            if row and not (all(0 <= w < np.inf for w in row) and sum(row) > 0):
                raise UserError(
                    f"ByMixture has the mixture {row}; each number must be finite and at least 0, and at least one number must be above 0"
                )

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's source has no arms, or if the number of arms differs from the number of weights in `weights` or `trials`."""
        self.mixture(arms_of(self, task.source))

    def mixture(self, arms: Sequence[str]) -> np.ndarray:
        """Returns the probability of each arm, [K]."""
        for row in (self.weights, *(w for w, _ in self.trials)):
            if row and len(row) != len(arms):
                raise UserError(
                    f"the curriculum has a mixture of {len(row)} numbers for {len(arms)} arms ({', '.join(arms)}); give one number per arm"
                )
        if not self.trials:
            given = np.array(self.weights or [1.0] * len(arms), dtype=np.float64)
            return np.asarray(given / given.sum())
        return best_of(self.trials, self.ridge)

    def start(self) -> dict[str, dict[str, int]]:
        return {"drawn": {}}

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state contains for every arm the number of its problems that were drawn so far."""
        arms = arms_of(self, source)
        problems, drawn = draw_by_arm(source, arms, self.mixture(arms), count, world, state["drawn"])  # type: ignore[arg-type]
        return [Request(problem, count=self.group or world.group) for problem in problems], {"drawn": drawn}
