"""A chart as an SVG file that needs no other file. The colours of the file follow the reader's light or dark theme."""

from __future__ import annotations

import html
from collections.abc import Sequence

from gradus.lab.axes import HEIGHT, LEFT, WIDTH
from gradus.lab.curves import COLOURS, Series, colour, drawing, frame_of, told, united

LIGHT = ("#2f6bd8", "#c05a06", "#1f8a5b", "#9c3fb0", "#937013", "#d03a63", "#0e7f92", "#6b6f76")
DARK = ("#78a6f5", "#f0a05a", "#62c795", "#d08ae0", "#d9bd68", "#f08aa5", "#5cc4d6", "#a9adb5")
"""The colours of the series, as on the page of a run."""

_ROW, _HEAD = 17, 30  # height of one entry of the legend; height of the title
_STYLE = """
svg {{ {light} --ink: #1c1c1a; --soft: #5f5f58; --edge: #e0e0d9; background: #fff; font: 11px system-ui, sans-serif; }}
@media (prefers-color-scheme: dark) {{ svg {{ {dark} --ink: #ecece6; --soft: #a3a39a; --edge: #34342f; background: #1d1d1b; }} }}
text {{ fill: var(--soft); }} .head {{ fill: var(--ink); font-size: 14px; font-weight: 600; }} .entry {{ fill: var(--ink); font-size: 12px; }}
.grid {{ stroke: var(--edge); }} .line, .faint, .span {{ fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round; }}
.faint {{ stroke-width: 1; opacity: .3; }} .span {{ stroke-width: 1.2; opacity: .55; }} circle, rect {{ fill: var(--c); }}
"""


def picture(title: str, series: Sequence[Series], *, axis: str = "step", unit: str = "") -> str:
    """Returns an SVG document of some series with title and legend. Raises: ValueError if no series has a point."""
    series = united(series)
    if not series:
        raise ValueError("no series has a point")
    colours = (" ".join(f"--curve-{i}: {value};" for i, value in enumerate(row[:COLOURS])) for row in (LIGHT, DARK))
    style = _STYLE.format(**dict(zip(("light", "dark"), colours, strict=True)))
    high, below = _HEAD + HEIGHT + _ROW * len(series) + 10, _HEAD + HEIGHT
    entries = "".join(
        f'<rect {colour(i)} x="{LEFT}" y="{below + _ROW * i}" width="10" height="10" rx="3"/>'
        f'<text class="entry" x="{LEFT + 16}" y="{below + _ROW * i + 9.5:g}">{html.escape(one.name)}: {told(one.points[-1][1])}</text>'
        for i, one in enumerate(series)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {high}" width="{2 * WIDTH}" height="{2 * high}" role="img">\n'
        f"<title>{html.escape(title)}</title><style>{style}</style>\n"
        f'<text class="head" x="{LEFT}" y="20">{html.escape(title)}</text>\n'
        f'<g transform="translate(0 {_HEAD})">{drawing(series, frame_of(series), axis, unit)}</g>\n{entries}\n</svg>\n'
    )
