"""Curves and bars as inline SVG: axes, lines, a legend with the last values. Colours come from the page's style sheet (`--curve-0` and on)."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 26
ROW = 40  # height of one interval with its name
COLOURS = 6
MOST_POINTS = 400  # of a drawn line; longer lines keep the lowest and the highest point of every stretch


@dataclass(frozen=True)
class Series:
    """A named line: (step, value) in the order of the steps.

    `dots`: every point is drawn as a dot. `spans`: (step, low, high) of intervals around points, drawn as upright strokes; with `band`, as
    one area behind the line.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    dots: bool = False
    spans: tuple[tuple[float, float, float], ...] = ()
    band: bool = False


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


def smooth(points: Sequence[tuple[float, float]], window: int) -> list[tuple[float, float]]:
    """The running mean of every point and the `window - 1` points before it; of fewer at the start."""
    result, total = [], 0.0
    for i, (step, value) in enumerate(points):
        total += value - (points[i - window][1] if i >= window else 0.0)
        result.append((step, total / min(i + 1, window)))
    return result


def united(series: Sequence[Series]) -> list[Series]:
    """The series without those of no point; series with equal points become one with all their names.

    >>> [one.name for one in united([Series("reward", ((0, 1.0),)), Series("verified", ((0, 1.0),)), Series("style", ((0, 0.5),))])]
    ['reward = verified', 'style']
    """
    names: dict[tuple[tuple[float, float], ...], list[Series]] = {}
    for one in series:
        if one.points:
            names.setdefault(one.points, []).append(one)
    return [
        Series(
            " = ".join(dict.fromkeys(_cut(s.name) for s in alike)), points, alike[0].dots, next((s.spans for s in alike if s.spans), ())
        )
        for points, alike in names.items()
    ]


def _cut(name: str, most: int = 60) -> str:
    return name if len(name) <= most else f"{name[:most]}…"


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> list[tuple[float, float]]:
    """At most `most` points: the first and the last, and the lowest and the highest of each of equal stretches between them."""
    if len(points) <= most:
        return list(points)
    stretches = (most - 2) // 2
    edges = [1 + i * (len(points) - 2) // stretches for i in range(stretches + 1)]
    kept = [points[0]]
    for start, stop in itertools.pairwise(edges):
        inside = range(start, stop)
        ends = {min(inside, key=lambda i: points[i][1]), max(inside, key=lambda i: points[i][1])}
        kept += [points[i] for i in sorted(ends)]
    return [*kept, points[-1]]


def chart(title: str, series: Sequence[Series], *, axis: str = "step", unite: bool = True) -> str:
    """A figure of some series on common axes; '' if none has a point. A line of 40 points or more is drawn faint under its running mean.

    Args: axis: the name of the horizontal axis. unite: whether series with equal points become one.
    """
    series = united(series) if unite else [one for one in series if one.points]
    if not series:
        return ""
    steps = [step for s in series for step, _ in s.points]
    values = [value for s in series for _, value in s.points]
    values += [end for s in series for _, *ends in s.spans for end in ends]
    frame = _Frame(min(steps), max(steps), *_padded(min(values), max(values)))
    lines = "".join(_line(s, i, frame) for i, s in enumerate(series))
    legend = "".join(_entry(s, i) for i, s in enumerate(series))
    label = f"{title} by {axis}, last: {', '.join(f'{s.name} {s.points[-1][1]:.3g}' for s in series)}"
    return _figure(title, label, _axes(frame) + lines, legend, axis)


def bars(title: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], *, about: str = "") -> str:
    """A figure of shares from 0 to 1: for every label one bar per series. `about`: what the labels are. '' without labels."""
    if not labels:
        return ""
    high = max([share for _, shares in series for share in shares], default=0.0) or 1.0
    frame = _Frame(0, 1, 0.0, min(1.0, 1.05 * high))
    wide = (WIDTH - LEFT - RIGHT) / len(labels)
    thick = min(0.8 * wide / max(len(series), 1), 40.0)
    parts = [_levels(frame, "%")]
    for column, label in enumerate(labels):
        middle = LEFT + (column + 0.5) * wide
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(label)}</text>')
        for i, (name, shares) in enumerate(series):
            x, y = middle + (i - len(series) / 2) * thick, frame.y(shares[column])
            told = html.escape(f"{name}, {label}: {shares[column]:.1%}")
            size = f'width="{max(thick - 2, 1):.1f}" height="{frame.y(0.0) - y:.1f}"'
            parts.append(f'<rect style="--c:var(--curve-{i % COLOURS})" x="{x:.1f}" y="{y:.1f}" {size}><title>{told}</title></rect>')
    legend = "".join(f'<li style="--c:var(--curve-{i % COLOURS})">{html.escape(name)}</li>' for i, (name, _) in enumerate(series))
    label = f"{title}: " + "; ".join(f"{name} {', '.join(f'{n} {s:.0%}' for n, s in zip(labels, shares))}" for name, shares in series)
    return _figure(title, label, "".join(parts), legend, about)


def intervals(title: str, rows: Sequence[tuple[str, float, float, float]], *, about: str = "") -> str:
    """A figure of values with their intervals, one below the other, each under its name. '' without rows.

    Args: rows: (name, value, low, high); about: what the bars are.
    """
    if not rows:
        return ""
    low, high = _padded(min(row[2] for row in rows), max(row[3] for row in rows))
    bottom, parts = ROW * len(rows) + 4, []

    def across(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    for value in ticks(low, high, 5):
        x = across(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>')
    for i, (name, value, left, right) in enumerate(rows):
        style, y, told = _colour(i), ROW * (i + 1) - 9, html.escape(f"{name}: {value:.3f} [{left:.3f}, {right:.3f}]")
        parts.append(f'<text class="name" x="{LEFT}" y="{y - 9}">{html.escape(_fitting(name, 42))}</text>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{value:.3f}</text>')
        parts.append(f'<path class="span" {style} d="M{across(left):.1f},{y}H{across(right):.1f}"/>')
        parts.append(f'<circle {style} cx="{across(value):.1f}" cy="{y}" r="4"><title>{told}</title></circle>')
    label = f"{title}: " + "; ".join(f"{name} {value:.3f}" for name, value, *_ in rows)
    return _figure(title, label, "".join(parts), "", about, bottom + 24)


def _fitting(name: str, most: int) -> str:
    """The name, cut so that it is not wider than `most` letters of a common width; capitals, m, w and letters of other scripts are wider."""
    wide = 0.0
    for i, letter in enumerate(name):
        wide += 1.6 if letter in "mwMW@%" or ord(letter) > 0x2000 else 1.25 if letter.isupper() else 1.0
        if wide > most:
            return f"{name[:i]}…"
    return name


def _colour(i: int) -> str:
    """The style of the series number i. Beyond the colours, lines are dashed: the colours begin again."""
    return f'style="--c:var(--curve-{i % COLOURS})"' + (' data-again=""' if i >= COLOURS else "")


def _figure(title: str, label: str, inside: str, legend: str, axis: str, height: float = HEIGHT) -> str:
    entries = f'<ul class="legend">{legend}</ul>' if legend else ""
    return (
        f'<figure><figcaption>{html.escape(title)}<span class="axis">{html.escape(axis)}</span></figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{html.escape(label)}">'
        f"{inside}</svg>{entries}</figure>"
    )


@dataclass(frozen=True)
class _Frame:
    """The map from (step, value) to the coordinates of the picture."""

    first: float
    last: float
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


def _levels(frame: _Frame, unit: str = "") -> str:
    """The horizontal lines with their values. `unit` "%": shares as percentages."""
    parts = []
    for value in ticks(frame.low, frame.high):
        y, told = frame.y(value), f"{100 * value:g} %" if unit else f"{value:g}".replace("e-0", "e-").replace("e+", "e")
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{told}</text>')
    return "".join(parts)


def _short(number: int) -> str:
    """A whole number in little room: 2500000 as 2.5M."""
    for size, letter in ((1_000_000, "M"), (10_000, "k")):
        if number >= size:
            return f"{number / (1000 if letter == 'k' else size):g}{letter}"
    return str(number)


def _axes(frame: _Frame) -> str:
    parts = [_levels(frame)]
    for step in ticks(frame.first, frame.last, 5):
        if step == int(step):
            parts.append(f'<text x="{frame.x(step):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{_short(int(step))}</text>')
    return "".join(parts)


def _line(series: Series, place: int, frame: _Frame) -> str:
    style = _colour(place)
    window = len(series.points) // 20
    drawn = smooth(series.points, window) if window > 1 and not series.dots else series.points
    faint = f'<path class="faint" {style} d="{_path(thinned(series.points), frame)}"/>' if drawn is not series.points else ""
    marks = ""
    if series.dots or len(series.points) == 1:
        marks = "".join(
            f'<circle {style} cx="{frame.x(step):.1f}" cy="{frame.y(value):.1f}" r="2.6"><title>step {step}: {value:.4g}</title></circle>'
            for step, value in thinned(series.points)
        )
    kept = {step for step, _ in thinned(series.points)}
    if series.band and series.spans:
        edge = [(step, high) for step, _, high in series.spans] + [(step, low) for step, low, _ in reversed(series.spans)]
        area = f'<path class="band" {style} d="{_path(edge, frame)}Z"/>'
        return f'{area}<path class="line" {style} d="{_path(thinned(drawn), frame)}"/>{marks}'
    strokes = "".join(f"M{frame.x(step):.1f},{frame.y(low):.1f}V{frame.y(high):.1f}" for step, low, high in series.spans if step in kept)
    spans = f'<path class="span" {style} d="{strokes}"/>' if strokes else ""
    return f'{faint}{spans}<path class="line" {style} d="{_path(thinned(drawn), frame)}"/>{marks}'


def _path(points: Sequence[tuple[float, float]], frame: _Frame) -> str:
    return "M" + "L".join(f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value in points)


def _entry(series: Series, place: int) -> str:
    return f'<li {_colour(place)}>{html.escape(series.name)} <b>{series.points[-1][1]:.3g}</b></li>'
