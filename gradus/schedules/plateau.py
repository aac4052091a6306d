"""Causes events if the evaluations no longer improve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradus.types.errors import unknown
from gradus.types.moments import CopyWeights, Event, Moment, ResetOptimizer
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class OnPlateau:
    """Causes `events` if `metric` did not exceed its best value by more than `gain` in `evaluations` evaluations in a row.

    By default, the reference gets the weights of the policy, and the optimizer forgets its moments. After this, the current value becomes the best value,
    and the count starts again. If a smaller metric is better, set `rises=False`.
    """

    metric: str = "held_out/accuracy"  # a metric of the evaluations
    events: tuple[Event, ...] = (CopyWeights("policy", "reference"), ResetOptimizer())
    gain: float = 0.01  # an improvement must be larger than this, in units of the metric
    evaluations: int = 3  # number of evaluations without improvement before the events occur
    most: int | None = None  # the largest number of times that the events may occur; None: no limit
    rises: bool = True  # False: a smaller value is better

    def __post_init__(self) -> None:
        check_ranges(self, gain="[0, inf)", evaluations="[1, inf)", most="[1, inf)")

    @property
    def watches(self) -> tuple[str, ...]:
        return (self.metric,)

    @property
    def causes(self) -> tuple[Event, ...]:
        return self.events

    def start(self) -> dict[str, Any]:
        return {"seen": 0, "best": None, "since": 0, "times": 0}

    def at(self, now: Moment, recipe: Any, state: dict[str, Any]) -> tuple[Any, tuple[Event, ...], dict[str, Any]]:
        """Returns the recipe and the events that occur now. Raises UserError if an evaluation does not give the metric."""
        if now.evaluations == state["seen"]:
            return recipe, (), state
        if self.metric not in now.evaluated:
            raise unknown("metric", self.metric, now.evaluated, "OnPlateau watches this metric, but the evaluation does not give it")
        value = now.evaluated[self.metric] * (1 if self.rises else -1)
        better = state["best"] is None or value > state["best"] + self.gain
        since = 0 if better else state["since"] + 1
        new = {**state, "seen": now.evaluations, "best": value if better else state["best"], "since": since}
        if since < self.evaluations or (self.most is not None and state["times"] >= self.most):
            return recipe, (), new
        return recipe, self.events, {**new, "best": value, "since": 0, "times": state["times"] + 1}
