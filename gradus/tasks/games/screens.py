"""Screens: generated devices, each with a form that must be filled in and sent."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Literal

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.screens_environment import APPS, FIELDS, OPTIONS, Device, Screens, shortest
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Key, Problem, Sampling
from gradus.types.parts import Task

LEVELS = {1: (2, 1, 0.16), 2: (3, 2, 0.04), 3: (4, 3, 0.01)}
"""Level -> apps, fields, and the measured chance that random taps send the right form."""


def screens(level: int = 2, delay: float = 0.0, show: Literal["text", "image", "array"] = "text") -> Task:
    """Open an app, set its fields and send the form on a device with 2 apps and 1 field (`level` 1) to 4 apps and 3 fields (`level` 3).

    `delay`: mean seconds of a tap. `show`: the screen as text, as a picture of 48 x 48 pixels, or as an array for a controller.
    """
    source = Generated("screens", make, level, (min(LEVELS), max(LEVELS)))
    return Task(
        "screens",
        source,
        replace(source, held_out=True),
        environment=Screens(delay=delay, show=show),
        provides=frozenset({"demonstration", "solution", "difficulty"} if show == "text" else {"difficulty"}),
        about="fill in and send a form on a device with apps; a turn is a tap",
        sampling=Sampling(max_tokens=12),
        level=level,
        chance=LEVELS[level][2] if level in LEVELS else 0.0,
    )


def make(rng: Random, level: int) -> Draft:
    """Makes a device and a goal. The apps and the fields are in random order. The shortest way is the demonstration."""
    count, fields, _ = LEVELS[level]
    apps, names = tuple(rng.sample(APPS, count)), tuple(rng.sample(tuple(FIELDS), fields))
    app, values = rng.choice(apps), tuple(rng.randrange(OPTIONS) for _ in names)
    goal = " ".join([app, *(f"{name}={FIELDS[name][value]}" for name, value in zip(names, values, strict=True))])
    meta = {"apps": apps, "fields": names, "app": app, "values": values}
    problem = Problem("", "screens", meta=Frozen(meta))
    taps = shortest(problem)
    pairs = demonstrated(Device(problem, Screens(), Key()), taps)
    return Draft(f"Goal: {goal}. Tap a number.", " ".join(taps), "\n".join(taps), f"{apps} {goal}", Frozen(**meta, demonstration=pairs))
