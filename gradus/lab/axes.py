"""The frame of a picture: the mapping from values to coordinates, round ticks, grid lines, and the titles of both axes with their units."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 246
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 12, 42


@dataclass(frozen=True)
class Frame:
    """The mapping from (step, value) to the coordinates of the picture."""

    first: float
    last: float
    low: float
    high: float

    def x(self, step: float) -> float:
        return LEFT + (step - self.first) / ((self.last - self.first) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return TOP + (self.high - value) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Returns about `count` round numbers from `low` to `high`. The distance of two ticks is 1, 2 or 5 times a power of ten.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    apart = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.7)
    first, last = math.ceil(low / apart - 1e-9), math.floor(high / apart + 1e-9)
    return [float(f"{i * apart:.12g}") for i in range(first, last + 1)]


def padded(low: float, high: float) -> tuple[float, float]:
    """Returns the range of values with a margin above and below. The range begins at 0 if the lowest value is near 0.

    There is also a margin if all values are equal.
    """
    margin = 0.05 * (high - low) if high > low else 0.5 * abs(high) or 0.5
    return (0.0 if 0 <= low <= 0.2 * high else low - margin), high + margin


def short(number: float) -> str:
    """Returns a number of an axis in a short form.

    >>> short(2500000), short(-40000), short(0.00002), short(1e30)
    ('2.5M', '-40k', '2e-5', '1e30')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size <= abs(number) < 1e12:
            return f"{number / (1000 if letter == 'k' else size):g}{letter}"
    return f"{number:g}".replace("e-0", "e-").replace("e+", "e")


def levels(frame: Frame, percent: bool = False) -> str:
    """Returns the horizontal grid lines with their values, optionally as percentages."""
    parts = []
    for value in ticks(frame.low, frame.high):
        y, told = frame.y(value), f"{100 * value:g} %" if percent else short(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{told}</text>')
    return "".join(parts)


def steps_below(frame: Frame) -> str:
    """Returns the labels of the horizontal axis: round whole numbers of steps."""
    whole = [value for value in ticks(frame.first, frame.last, 5) if value == int(value)]
    return "".join(f'<text x="{frame.x(value):.1f}" y="{HEIGHT - 25}" text-anchor="middle">{short(value)}</text>' for value in whole)


def titles(across: str, up: str, height: float = HEIGHT) -> str:
    """The names of the axes with their units: below the picture, and vertical at its left edge."""
    middle, half = (LEFT + WIDTH - RIGHT) / 2, (TOP + height - BOTTOM) / 2
    below = f'<text class="axis" x="{middle:g}" y="{height - 7:g}" text-anchor="middle">{html.escape(across)}</text>' if across else ""
    beside = f'<text class="axis" transform="translate(11 {half:g}) rotate(-90)" text-anchor="middle">{html.escape(up)}</text>' if up else ""
    return below + beside
