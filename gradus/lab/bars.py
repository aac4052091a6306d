"""Bars, intervals and shares by step as inline SVG, in the style of `gradus.lab.curves`."""

from __future__ import annotations

import html
from collections.abc import Sequence

from gradus.lab.axes import HEIGHT, LEFT, RIGHT, WIDTH, Frame, levels, padded, steps_below, ticks, titles
from gradus.lab.curves import COLOURS, Series, band, colour, figure, frame_of, path, place_of, told, values

ROW = 40  # height of an interval and its name


def bars(title: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], *, axis: str = "", unit: str = "") -> str:
    """Returns a figure of shares from 0 to 1, with one bar per label and series; '' if there are no labels.

    Args: axis, unit: the names of the horizontal and of the vertical axis.
    """
    if not labels:
        return ""
    high = max([share for _, shares in series for share in shares], default=0.0) or 1.0
    frame = Frame(0, 1, 0.0, min(1.0, 1.05 * high))
    wide = (WIDTH - LEFT - RIGHT) / len(labels)
    thick = min(0.8 * wide / max(len(series), 1), 40.0)
    parts = [levels(frame, percent=True), titles(axis, unit)]
    for column, label in enumerate(labels):
        middle = LEFT + (column + 0.5) * wide
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 25}" text-anchor="middle">{html.escape(label)}</text>')
        for i, (name, shares) in enumerate(series):
            x, y = middle + (i - len(series) / 2) * thick, frame.y(shares[column])
            said = html.escape(f"{name}, {label}: {shares[column]:.1%}")
            size = f'width="{max(thick - 2, 1):.1f}" height="{frame.y(0.0) - y:.1f}"'
            parts.append(f'<rect style="--c:var(--curve-{i % COLOURS})" x="{x:.1f}" y="{y:.1f}" {size}><title>{said}</title></rect>')
    legend = "".join(f'<li style="--c:var(--curve-{i % COLOURS})">{html.escape(name)}</li>' for i, (name, _) in enumerate(series))
    label = f"{title}: " + "; ".join(f"{name} {', '.join(f'{n} {s:.0%}' for n, s in zip(labels, shares))}" for name, shares in series)
    return figure(title, label, "".join(parts), legend)


def intervals(title: str, rows: Sequence[tuple[str, float, float, float]], *, about: str = "") -> str:
    """Returns a figure of values with their intervals; '' if there are no rows. Each row is below its name.

    Args: rows: (name, value, low, high); about: the meaning of the bars.
    """
    if not rows:
        return ""
    low, high = padded(min(row[2] for row in rows), max(row[3] for row in rows))
    bottom, parts = ROW * len(rows) + 4, []

    def across(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    for value in ticks(low, high, 5):
        x = across(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{value:g}</text>')
    for i, (name, value, left, right) in enumerate(rows):
        style, y, said = colour(i), ROW * (i + 1) - 9, html.escape(f"{name}: {value:.3f} [{left:.3f}, {right:.3f}]")
        parts.append(f'<text class="name" x="{LEFT}" y="{y - 9}">{html.escape(_fitting(name, 42))}</text>')
        parts.append(f'<text x="{LEFT - 7}" y="{y + 3.5:.1f}" text-anchor="end">{value:.3f}</text>')
        parts.append(f'<path class="span" {style} d="M{across(left):.1f},{y}H{across(right):.1f}"/>')
        parts.append(f'<circle {style} cx="{across(value):.1f}" cy="{y}" r="4"><title>{said}</title></circle>')
    label = f"{title}: " + "; ".join(f"{name} {value:.3f}" for name, value, *_ in rows)
    return figure(title, label, "".join(parts), "", about=about, height=bottom + 24)


def _fitting(name: str, most: int) -> str:
    """Returns the name, cut to the width of `most` common letters. Capitals, m, w and letters of other scripts count as wider.
    """
    wide = 0.0
    for i, letter in enumerate(name):
        wide += 1.6 if letter in "mwMW@%" or ord(letter) > 0x2000 else 1.25 if letter.isupper() else 1.0
        if wide > most:
            return f"{name[:i]}…"
    return name


def stacked(title: str, parts: Sequence[Series], *, axis: str = "step", unit: str = "") -> str:
    """Returns a figure of shares that add up to 1 at every step, as stacked areas.

    The first part is at the bottom. Returns '' if there are no points.

    Raises: ValueError if the parts have different steps.
    """
    if not parts or not parts[0].points:
        return ""
    steps = [step for step, _ in parts[0].points]
    frame, below, inside = Frame(steps[0], steps[-1] if len(steps) > 1 else steps[0] + 1, 0.0, 1.0), [0.0] * len(steps), []
    for i, part in enumerate(parts):
        if [step for step, _ in part.points] != steps:
            raise ValueError(f"the steps of {part.name} differ from those of {parts[0].name}; give every part the same steps")
        above = [low + share for low, (_, share) in zip(below, part.points)]
        edges = list(zip(steps, below, above))
        if len(edges) == 1:
            edges.append((steps[0] + 1, *edges[0][1:]))
        inside.append(band(edges, f'data-full="" {colour(place_of(part, i))}', frame))
        below = above
    legend = "".join(f'<li {colour(place_of(one, i))}>{html.escape(one.name)} <b>{one.points[-1][1]:.0%}</b></li>' for i, one in enumerate(parts))
    label = f"{title} by {axis}, last: {', '.join(f'{one.name} {one.points[-1][1]:.0%}' for one in parts)}"
    drawn = "".join(inside) + levels(frame, percent=True) + steps_below(frame) + titles(axis, unit)
    return figure(title, label, drawn, legend, values=values(parts, frame, axis).replace('"axis"', '"stacked":true,"axis"', 1))


def fan(title: str, quantiles: Sequence[Series], *, axis: str = "step", unit: str = "") -> str:
    """Returns a figure of quantiles by step, the lowest first.

    Each outer pair of quantiles encloses an area. The middle quantile is a line.

    Raises: ValueError for an even number of quantiles, or for different steps.
    """
    if not quantiles or not quantiles[0].points:
        return ""
    steps = [step for step, _ in quantiles[0].points]
    if len(quantiles) % 2 == 0:
        raise ValueError(f"the number of quantiles is {len(quantiles)}; it must be odd")
    if any([step for step, _ in one.points] != steps for one in quantiles):
        raise ValueError("two quantiles have points at different steps; all quantiles must have points at the same steps")
    frame, middle, inside = frame_of(quantiles), len(quantiles) // 2, []
    for place in range(middle):
        low, high = quantiles[place].points, quantiles[-1 - place].points
        inside.append(band([(step, a, b) for (step, a), (_, b) in zip(low, high)], colour(0), frame))
    dot = "".join(f'<circle {colour(0)} cx="{frame.x(s):.1f}" cy="{frame.y(v):.1f}" r="2.6"/>' for s, v in quantiles[middle].points[: len(steps) == 1])
    inside.append(f'<path class="line" {colour(0)} d="{path(quantiles[middle].points, frame)}"/>{dot}')
    legend = "".join(f'<li {colour(0)}>{html.escape(one.name)} <b>{told(one.points[-1][1])}</b></li>' for one in reversed(quantiles))
    label = f"{title} by {axis}, last: {', '.join(f'{one.name} {told(one.points[-1][1])}' for one in quantiles)}"
    drawn = levels(frame) + steps_below(frame) + titles(axis, unit) + "".join(inside)
    return figure(title, label, drawn, legend, values=values(list(reversed(quantiles)), frame, axis))
