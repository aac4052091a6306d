"""Changes a number of the recipe along given points."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

from gradus.schedules.paths import fitting, with_value
from gradus.types.errors import UserError
from gradus.types.moments import Event, Moment

Shape = Literal["linear", "cosine", "exponential", "step"]


def ramp(position: float, points: tuple[tuple[float, float], ...], shapes: tuple[str, ...]) -> float:
    """Returns the value at a position on the curve through `points`. The points are pairs (position, value), in rising order of positions.

    Between (p, a) and (q, b), let x be (position - p) / (q - p). The shape "linear" gives a + (b - a) x. The shape "cosine" gives a + (b - a) (1 - cos(pi x)) /
    2. The shape "exponential" gives a (b / a)^x, for positive a and b. The shape "step" gives a. Before the first point, the result is the value of the first
    point. After the last point, the result is the value of the last point.
    """
    after = bisect_right([p for p, _ in points], position)
    if after in (0, len(points)):
        return points[max(after - 1, 0)][1]
    (p, a), (q, b), shape = points[after - 1], points[after], shapes[after - 1]
    x = (position - p) / (q - p)
    if shape == "exponential":
        return float(a * (b / a) ** x)
    share = {"linear": x, "cosine": (1 - math.cos(math.pi * x)) / 2, "step": 0.0}[shape]
    return a + (b - a) * share


@dataclass(frozen=True)
class Ramp:
    """Changes the number at `path` along `points`, which are pairs of a step and a value. A step is the number of finished steps, so the first step is 0.

    A field that takes only whole numbers gets the nearest whole number.
    """

    path: str  # such as objective.kl.coefficient
    points: tuple[tuple[float, float], ...]  # (step, value) in rising order of steps; with `over` "progress": (finished share of the run in [0, 1], value)
    shape: Shape | tuple[Shape, ...] = "linear"  # one shape for the whole curve, or one shape for each pair of neighbouring points
    over: Literal["steps", "progress"] = "steps"
    rest: str | None = None  # path of a second number, which is always 1 minus the first number, such as the second share of a mixture

    def __post_init__(self) -> None:
        positions = [p for p, _ in self.points]
        if not self.points or any(b <= a for a, b in pairwise(positions)):
            raise UserError(f"Ramp.points is {self.points}; it must be pairs (step, value) with rising steps, for example ((0, 0.0), (100, 0.5))")
        if wrong := [s for s in (self.shape if isinstance(self.shape, tuple) else (self.shape,)) if s not in get_args(Shape)]:
            raise UserError(f'Ramp.shape is "{wrong[0]}"; it must be "linear", "cosine", "exponential" or "step"')
        if isinstance(self.shape, tuple) and len(self.shape) != len(self.points) - 1:
            raise UserError(f"Ramp.shape has {len(self.shape)} entries for {len(self.points)} points; it must have one entry for each pair of neighbouring points")
        if "exponential" in ((self.shape,) if isinstance(self.shape, str) else self.shape) and min(v for _, v in self.points) <= 0:
            raise UserError(f'Ramp.points is {self.points}, but the shape "exponential" needs values above 0; raise these values, or choose another shape')
        if self.over == "progress" and not all(0 <= p <= 1 for p in positions):
            raise UserError(f'Ramp.points is {self.points} and Ramp.over is "progress", so the first number of every point must lie in [0, 1]')

    def value(self, now: Moment) -> float:
        """Returns the number for the current step."""
        shapes = self.shape if isinstance(self.shape, tuple) else (self.shape,) * (len(self.points) - 1)
        return ramp(now.progress if self.over == "progress" else now.step, self.points, shapes)

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        own = tuple((self.path, fitting(recipe, self.path, value)) for _, value in self.points)
        return own if self.rest is None else (*own, *((self.rest, 1 - value) for _, value in self.points))

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        value = self.value(now)
        recipe = with_value(recipe, self.path, value)
        return (recipe if self.rest is None else with_value(recipe, self.rest, 1 - value)), ()
