"""Curves as inline SVG.

A curve has axes with titles, lines, intervals, a legend with the last values, and the numbers that the page shows at the pointer.

Colours come from the page's style sheet (`--curve-0`, `--curve-1`, ...).
"""

from __future__ import annotations

import html
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass

from gradus.lab.axes import HEIGHT, WIDTH, Frame, levels, padded, steps_below, titles

COLOURS = 8
MOST_POINTS = 400  # largest number of points of a drawn line; a longer line keeps the lowest and the highest point of every stretch
MOST_VALUES = 1000  # largest number of values that the pointer can show; a longer series shows values at equal distances


@dataclass(frozen=True)
class Series:
    """A named line: (step, value) in the order of the steps.

    `dots`: every point is drawn as a dot. `spans`: (step, low, high) of the intervals around points. Intervals are drawn as vertical lines, or with `band` as
    one area behind the line. `place`: the number of the line's colour; None: its position among the series.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    dots: bool = False
    spans: tuple[tuple[float, float, float], ...] = ()
    band: bool = False
    place: int | None = None


def smooth(points: Sequence[tuple[float, float]], window: int) -> list[tuple[float, float]]:
    """Returns the running mean: at each point, the mean of this point and the `window - 1` points before it.

    At the start, the mean is over fewer points.
    """
    result, total = [], 0.0
    for i, (step, value) in enumerate(points):
        total += value - (points[i - window][1] if i >= window else 0.0)
        result.append((step, total / min(i + 1, window)))
    return result


def united(series: Sequence[Series]) -> list[Series]:
    """Returns the series that have at least one point. Series with equal points become one series with all their names.

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
    """Returns at most `most` points: the first, the last, and the lowest and highest point of each of several equal stretches between them."""
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


def chart(title: str, series: Sequence[Series], *, axis: str = "step", unit: str = "", unite: bool = True) -> str:
    """Returns a figure of some series on common axes; '' if no series has a point.

    A line of 40 points or more is drawn in a pale colour under its running mean.

    Args: axis, unit: the names of the horizontal and of the vertical axis. unite: whether series with equal points become one series.
    """
    series = united(series) if unite else [one for one in series if one.points]
    if not series:
        return ""
    frame = frame_of(series)
    legend = "".join(_entry(s, place_of(s, i)) for i, s in enumerate(series))
    label = f"{title} by {axis}, last: {', '.join(f'{s.name} {told(s.points[-1][1])}' for s in series)}"
    return figure(title, label, drawing(series, frame, axis, unit), legend, values=values(series, frame, axis))


def place_of(series: Series, i: int) -> int:
    """Returns the number of the colour of series number `i`."""
    return i if series.place is None else series.place


def frame_of(series: Sequence[Series]) -> Frame:
    """Returns the frame that contains all points and intervals of the series."""
    steps = [step for s in series for step, _ in s.points]
    heights = [value for s in series for _, value in s.points]
    heights += [end for s in series for _, *ends in s.spans for end in ends]
    return Frame(min(steps), max(steps), *padded(min(heights), max(heights)))


def drawing(series: Sequence[Series], frame: Frame, axis: str, unit: str) -> str:
    """Returns the grid, axes and lines of a chart as SVG elements."""
    lines = (f'<g class="series">{_line(s, place_of(s, i), frame)}</g>' for i, s in enumerate(series))
    return levels(frame) + steps_below(frame) + titles(axis, unit) + "".join(lines)


def values(series: Sequence[Series], frame: Frame, axis: str) -> str:
    """Returns the numbers of a chart for the page's script, as JSON: the frame, the axis, and the name, steps and values of every series.

    Steps at equal distances are written "FIRST+DISTANCE". Intervals are two more lists: their lower ends and their upper ends.
    """
    found = []
    for one in series:
        apart = -(-len(one.points) // MOST_VALUES)
        points = one.points[::apart] if (len(one.points) - 1) % apart == 0 else (*one.points[::apart], one.points[-1])
        ends = {step: (low, high) for step, low, high in one.spans}
        row: list[object] = [one.name, _steps([step for step, _ in points]), [_rounded(value) for _, value in points]]
        if ends:
            row += [[_rounded(ends[step][end]) if step in ends else None for step, _ in points] for end in (0, 1)]
        found.append(row)
    return json.dumps({"axis": axis, "frame": [frame.first, frame.last, frame.low, frame.high], "series": found}, separators=(",", ":"))


def _steps(steps: Sequence[float]) -> str | list[float]:
    """Returns the steps as "FIRST+DISTANCE" if their distances are equal, else as a list of short numbers."""
    short = [int(step) if step == int(step) else _rounded(step, 6) for step in steps]
    apart = {b - a for a, b in itertools.pairwise(short)}
    return f"{short[0]}+{apart.pop() if apart else 1}" if len(apart) <= 1 else short


def _rounded(value: float, digits: int = 4) -> float:
    """Returns a value with a few digits. A whole number becomes an integer, which needs less room."""
    near = float(f"{value:.{digits}g}")
    return int(near) if near == int(near) and abs(near) < 1e15 else near


def told(value: float) -> str:
    """Returns a value as the legend shows it: with three digits, or in whole thousands.

    >>> told(0.12345), told(2053.4), told(-0.0000123)
    ('0.123', '2,053', '-1.23e-5')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.3g}".replace("e-0", "e-").replace("e+", "e")


def colour(i: int) -> str:
    """Returns the style of series number i. If there are more series than colours, the colours repeat with dashed lines."""
    return f'style="--c:var(--curve-{i % COLOURS})"' + (' data-again=""' if i >= COLOURS else "")


def figure(title: str, label: str, inside: str, legend: str, *, about: str = "", values: str = "", height: float = HEIGHT) -> str:
    """Returns a figure with its title, picture and legend. `values`: the numbers for the page's script; `about`: a few words next to the title."""
    entries = f'<ul class="legend">{legend}</ul>' if legend else ""
    told = f'<span class="about">{html.escape(about)}</span>' if about else ""
    data = values.replace("&", "&amp;").replace("'", "&#39;").replace("<", "&lt;")
    return (
        f"<figure{f' data-values={chr(39)}{data}{chr(39)}' if values else ''}><figcaption>{html.escape(title)}{told}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{html.escape(label)}">'
        f"{inside}</svg>{entries}</figure>"
    )


def _line(series: Series, place: int, frame: Frame) -> str:
    style = colour(place)
    window = len(series.points) // 20
    drawn = smooth(series.points, window) if window > 1 and not series.dots else series.points
    faint = f'<path class="faint" {style} d="{path(thinned(series.points), frame)}"/>' if drawn is not series.points else ""
    marks = ""
    if series.dots or len(series.points) == 1:
        marks = "".join(f'<circle {style} cx="{frame.x(step):.1f}" cy="{frame.y(value):.1f}" r="2.6"/>' for step, value in thinned(series.points))
    kept = {step for step, _ in thinned(series.points)}
    if series.band and series.spans:
        return f'{band(series.spans, style, frame)}<path class="line" {style} d="{path(thinned(drawn), frame)}"/>{marks}'
    strokes = "".join(f"M{frame.x(step):.1f},{frame.y(low):.1f}V{frame.y(high):.1f}" for step, low, high in series.spans if step in kept)
    spans = f'<path class="span" {style} d="{strokes}"/>' if strokes else ""
    return f'{faint}{spans}<path class="line" {style} d="{path(thinned(drawn), frame)}"/>{marks}'


def band(spans: Sequence[tuple[float, float, float]], style: str, frame: Frame) -> str:
    """The area between the lower and the upper ends of intervals."""
    edge = [(step, high) for step, _, high in spans] + [(step, low) for step, low, _ in reversed(spans)]
    return f'<path class="band" {style} d="{path(edge, frame)}Z"/>'


def path(points: Sequence[tuple[float, float]], frame: Frame) -> str:
    """Returns the line through some points."""
    return "M" + "L".join(f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value in points)


def _entry(series: Series, place: int) -> str:
    return f'<li {colour(place)}>{html.escape(series.name)} <b>{told(series.points[-1][1])}</b></li>'
