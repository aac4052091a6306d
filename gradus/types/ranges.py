"""Checks the numbers of a part against their ranges when the part is made."""

from __future__ import annotations

import math
from typing import Any

from gradus.types.errors import UserError

_DECLARED: dict[type, dict[str, str]] = {}
"""The checked intervals, by class and field. The intervals are added when the first part of a class is made."""


def declared_range(cls: type, name: str) -> str | None:
    """The interval of a field, such as "[0, 1)". None if the class checks no range for this field, or if no instance of the class exists yet."""
    return _DECLARED.get(cls, {}).get(name)


def check_ranges(part: Any, **ranges: str) -> None:
    """Raises UserError for the first field outside its interval, as in `check_ranges(self, clip="(0, inf)", betas="[0, 1)")`.

    Every number of a tuple must lie in the interval. None is always allowed; NaN is never allowed. A field with the type `int` accepts only whole
    numbers.
    """
    _DECLARED.setdefault(type(part), {}).update(ranges)
    for name, interval in ranges.items():
        value = getattr(part, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not within(number, interval):
                raise UserError(f"{type(part).__name__}.{name} is {value}; it must {_wanted(number, interval)}")
            if isinstance(number, float) and declared_type(type(part), name) in ("int", "int | None"):
                raise UserError(f"{type(part).__name__}.{name} is {value}; it must be a whole number, such as {math.floor(number)}")


def declared_type(cls: type, name: str) -> str:
    """The type of a field as text, as its class declares it."""
    written = next((vars(owner)["__annotations__"][name] for owner in cls.__mro__ if name in vars(owner).get("__annotations__", {})), "")
    return written if isinstance(written, str) else getattr(written, "__name__", "")


def within(number: Any, interval: str) -> bool:
    """Whether a number lies in an interval such as "[0, 1)" or "(0, inf)"; False for values that are not numbers."""
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return False
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = number >= low if interval.startswith("[") else number > low
    return above and (number <= high if interval.endswith("]") else number < high)


def _wanted(number: Any, interval: str) -> str:
    low, high = (end.strip() for end in interval[1:-1].split(","))
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return f"be a number in {interval}"
    if high != "inf":
        return f"lie in {interval}"
    least = f"{low} or more" if interval.startswith("[") else f"above {low}"
    return f"be {least}" if math.isfinite(number) else f"be finite, and {least}"
