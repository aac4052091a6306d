"""After every step, changes a number of the recipe so that a metric stays near a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from gradus.schedules.paths import fitting, value_at, with_value
from gradus.types.errors import UserError, unknown
from gradus.types.moments import Event, Moment
from gradus.types.ranges import check_ranges


def controlled(value: float, metric: float, *, target: float, rate: float, bound: float, by: str) -> float:
    """Returns the next value of a controlled number.

    With `by` "factor", the next value is value (1 + rate e) with e = clip((metric - target) / |target|, -bound, bound). With "sum", the next value
    is value + rate (metric - target).
    """
    if by == "sum":
        return value + rate * (metric - target)
    return value * (1 + rate * min(max((metric - target) / abs(target), -bound), bound))


@dataclass(frozen=True)
class Controlled:
    """Raises the number at `path` if `metric` was above `target` in the step before, and lowers the number if `metric` was below `target`.

    A negative `rate` reverses the direction. The first value is the recipe's number. A step without an update of the policy does not change the
    number. If the path names a KL coefficient and the metric is "kl", this part is the adaptive controller of Ziegler et al., Fine-Tuning Language
    Models from Human Preferences, arXiv:1909.08593, section 2.2. The paper uses `rate` 0.1 and `bound` 0.2.
    """

    path: str  # such as objective.kl.coefficient
    metric: str  # a metric of the steps, such as kl or entropy
    target: float
    rate: float = 0.1
    low: float = 0.0  # smallest value
    high: float = float("inf")  # largest value
    by: Literal["factor", "sum"] = "factor"
    bound: float = 0.2  # only for `by` "factor": the relative error is clipped to [-bound, bound]

    def __post_init__(self) -> None:
        check_ranges(self, bound="(0, inf]")
        if not self.low <= self.high:
            raise UserError(f"Controlled.low is {self.low}, which is above Controlled.high ({self.high}); set `low` to {self.high} or less")
        if self.by == "factor" and self.target == 0:
            raise UserError('Controlled.target is 0, but by="factor" divides by the target; set by="sum", or set another target')

    def start(self) -> dict[str, Any]:
        return {"value": None}

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        ends = (end for end in (self.low, self.high) if abs(end) != float("inf"))
        return tuple((self.path, fitting(recipe, self.path, end)) for end in (self._first(recipe), *ends))

    def _first(self, recipe: Any) -> float:
        found = value_at(recipe, self.path)
        if not isinstance(found, (int, float)) or isinstance(found, bool):
            raise UserError(f"Controlled.path is {self.path}, but the recipe has {found!r:.40} at this path; give the path of a number")
        return found

    def at(self, now: Moment, recipe: Any, state: dict[str, Any]) -> tuple[Any, tuple[Event, ...], dict[str, Any]]:
        """Returns the recipe with the new value of the number at `path`. Raises UserError if a step updates the policy but does not give the metric."""
        value = self._first(recipe) if state["value"] is None else state["value"]
        if self.metric in now.last:
            value = controlled(value, now.last[self.metric], target=self.target, rate=self.rate, bound=self.bound, by=self.by)
        elif "learning_rate" in now.last:
            raise unknown("metric", self.metric, now.last, "Controlled reads this metric, but the last step did not give it")
        value = min(max(value, self.low), self.high)
        return with_value(recipe, self.path, value), (), {"value": value}
