"""Points in the plane: eight Gaussians on a circle, and a direction that selects one of them."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np

from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Outcome, Trajectory
from gradus.types.parts import Task
from gradus.types.spaces import Box

MODES, RADIUS, SPREAD = 8, 2.0, 0.2  # Gaussians, distance of their centres from the origin, their standard deviation
ASIDE = 11.0  # largest angle in degrees between a direction and the direction of its mode; half the gap between two modes is 22.5
WIDTH = 0.5  # distance at which the reward is exp(-1/2)


def flow_2d() -> Task:
    """Draw a point near the Gaussian in a given direction. The reward is exp(-d^2 / (2 * 0.5^2)), in (0, 1], where d is the distance to the centre of this
    Gaussian."""
    source = Generated("flow_2d", make, 1, (1, 1))
    return Task(
        "flow_2d",
        source,
        replace(source, held_out=True),
        judge=near,
        provides=frozenset({"condition"}),
        about="points in the plane: draw a point near the Gaussian in a given direction; there are eight (for flow generators)",
        level=1,
        policy="flow",
        shows=frozenset({"condition"}),
        acts=Box((-math.inf,) * 2, (math.inf,) * 2),
    )


def make(rng: Random, level: int) -> Draft:
    """Draws a direction in hundredths of a degree. The condition is the cosine and sine of the direction; the answer is the centre of the Gaussian that the
    direction selects."""
    mode = rng.randrange(MODES)
    hundredths = (mode * 36000 // MODES + rng.randint(-round(100 * ASIDE), round(100 * ASIDE))) % 36000
    x, y = centre(mode)
    condition = (math.cos(math.radians(hundredths / 100)), math.sin(math.radians(hundredths / 100)))
    question = f"A point near the Gaussian in the direction of {hundredths / 100:.2f} degrees."
    return Draft(question, [x, y], f"({x:.2f}, {y:.2f})", str(hundredths), Frozen(condition=condition, mode=mode))


def centre(mode: int) -> tuple[float, float]:
    """Returns the centre of a mode's Gaussian."""
    angle = 2 * math.pi * mode / MODES
    return RADIUS * math.cos(angle), RADIUS * math.sin(angle)


def near(trajectory: Trajectory) -> Outcome:
    """exp(-|x - c|^2 / (2 WIDTH^2)) for the finished sample x and the centre c, which is the problem's answer."""
    sample = trajectory.contexts[-1].streams["sample"][-1].astype(np.float64)
    apart = float(np.square(sample - np.array(trajectory.problem.answer)).sum())
    return math.exp(-apart / (2 * WIDTH * WIDTH))
