"""`gradus profile`: the time of each part of a step, compared with the floor, which is the shortest time that the machine allows."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradus.checks.profile import Profile, Row

STEPS = 3  # measured steps by default


def run(options: argparse.Namespace) -> int:
    """Measures some steps of the recipe and prints the table."""
    from dataclasses import asdict

    from gradus.checks.profile import measured
    from gradus.cli.parser import planned_of

    steps = STEPS if options.steps is None else options.steps
    found = measured(planned_of(options), steps)
    print(json.dumps(asdict(found), indent=1) if options.json else told(found))
    return 0


def told(found: Profile) -> str:
    """A profile as text: the machine, the table, and the largest gaps with advice."""
    from gradus.runtime.tables import table
    from gradus.runtime.terminal import paint, paragraph

    model = f"{found.weights / 1e6:,.1f} million weights in {found.dtype}"
    where = f"{found.device}, {found.threads} thread{'s' * (found.threads != 1)}" if found.device == "cpu" else found.device
    counted = f"{found.steps} step{'s' * (found.steps != 1)}"
    lines = [paragraph(f"{found.recipe} on {found.task}: {model} on {where}; {counted} after one for warm-up, {_seconds(found.seconds)} per step")]
    lines += [paragraph(note) for note in found.notes]
    titles = ("part", "seconds", "share", "tokens/s", "reached", "peak", "of peak")
    lines.append(table([_cells(row, found.seconds) for row in found.rows], titles))
    lines.append(paragraph(f"One checkpoint takes {_seconds(found.checkpoint)}. The peaks were measured on this machine, at the shapes of these steps."))
    if found.advice:
        lines += [paint("The largest gaps to the floor", "title"), *(paragraph(text, "   ", f"{i}. ") for i, text in enumerate(found.advice, start=1))]
    return "\n".join(lines)


def _cells(row: Row, whole: float) -> tuple[str, ...]:
    name = f"  {row.name.partition('/')[2]}" if "/" in row.name else row.name
    share = f"{row.seconds / whole:.0%}" if whole > 0 else "-"
    speed = f"{row.tokens / row.seconds:,.0f}" if row.tokens and row.seconds > 0 else ""
    if row.floor is None or row.rate is None or row.peak is None:
        return name, f"{row.seconds:.3f}", share, speed, "", "", ""
    return name, f"{row.seconds:.3f}", share, speed, _rate(row.rate, row.unit), _rate(row.peak, row.unit), f"{row.rate / row.peak:.0%}"


def _rate(value: float, unit: str) -> str:
    """A rate with a prefix.

    >>> _rate(12_345_000_000.0, "B"), _rate(2.5e12, "FLOP")
    ('12.3 GB/s', '2.5 TFLOP/s')
    """
    size, prefix = next(((size, prefix) for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if value >= size), (1e3, "k"))
    return f"{value / size:.3g} {prefix}{unit}/s"


def _seconds(value: Any) -> str:
    return f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"
