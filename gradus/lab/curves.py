"""Curves as inline SVG: axes, lines, a legend with the last values. Colours come from the page's style sheet (`--curve-0` and on)."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 26
COLOURS = 6


@dataclass(frozen=True)
class Series:
    """A named line: (step, value) in the order of the steps. `dots`: every point is drawn as a dot."""

    name: str
    points: tuple[tuple[int, float], ...]
    dots: bool = False


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """About `count` round numbers from `low` to `high`, their distance 1, 2 or 5 times a power of ten.

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


def smooth(points: Sequence[tuple[int, float]], window: int) -> list[tuple[int, float]]:
    """The running mean of every point and the `window - 1` points before it; of fewer at the start."""
    result, total = [], 0.0
    for i, (step, value) in enumerate(points):
        total += value - (points[i - window][1] if i >= window else 0.0)
        result.append((step, total / min(i + 1, window)))
    return result


def chart(title: str, series: Sequence[Series]) -> str:
    """A figure of some series on common axes; '' if none has a point. A line of 40 points or more is drawn faint under its running mean."""
    series = [s for s in series if s.points]
    if not series:
        return ""
    steps = [step for s in series for step, _ in s.points]
    values = [value for s in series for _, value in s.points]
    frame = _Frame(min(steps), max(steps), *_padded(min(values), max(values)))
    lines = "".join(_line(s, i % COLOURS, frame) for i, s in enumerate(series))
    legend = "".join(_entry(s, i % COLOURS) for i, s in enumerate(series))
    label = html.escape(f"{title} by step")
    return (
        f'<figure><figcaption>{html.escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f'{_axes(frame)}{lines}</svg><ul class="legend">{legend}</ul></figure>'
    )


@dataclass(frozen=True)
class _Frame:
    """The map from (step, value) to the coordinates of the picture."""

    first: int
    last: int
    low: float
    high: float

    def x(self, step: float) -> float:
        return LEFT + (step - self.first) / max(self.last - self.first, 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return TOP + (self.high - value) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def _padded(low: float, high: float) -> tuple[float, float]:
    """The range of values with a margin above and below, from 0 if the lowest is near 0; a flat line gets a margin too."""
    margin = 0.05 * (high - low) if high > low else 0.5 * abs(high) or 0.5
    return (0.0 if 0 <= low <= 0.2 * high else low - margin), high + margin


def _axes(frame: _Frame) -> str:
    parts = []
    for value in ticks(frame.low, frame.high):
        y = frame.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{value:g}</text>')
    for step in ticks(frame.first, frame.last, 5):
        if step == int(step):
            parts.append(f'<text x="{frame.x(step):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{int(step)}</text>')
    return "".join(parts)


def _line(series: Series, colour: int, frame: _Frame) -> str:
    style = f'style="--c:var(--curve-{colour})"'
    window = len(series.points) // 20
    drawn = smooth(series.points, window) if window > 1 and not series.dots else series.points
    faint = f'<path class="faint" {style} d="{_path(series.points, frame)}"/>' if drawn is not series.points else ""
    marks = ""
    if series.dots or len(series.points) == 1:
        marks = "".join(
            f'<circle {style} cx="{frame.x(step):.1f}" cy="{frame.y(value):.1f}" r="2.6"><title>step {step}: {value:.4g}</title></circle>'
            for step, value in series.points
        )
    return f'{faint}<path class="line" {style} d="{_path(drawn, frame)}"/>{marks}'


def _path(points: Sequence[tuple[int, float]], frame: _Frame) -> str:
    return "M" + "L".join(f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value in points)


def _entry(series: Series, colour: int) -> str:
    return f'<li style="--c:var(--curve-{colour})">{html.escape(series.name)} <b>{series.points[-1][1]:.3g}</b></li>'
