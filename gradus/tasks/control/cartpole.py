"""CartPole: pushes to the left and to the right keep the pole on a cart upright. The reward is 1 per step, and an episode has at most 500 steps. From the same
state, the motion equals that of gymnasium's CartPole-v1 bit by bit (Barto, Sutton and Anderson, 1983; Euler steps of 0.02 s). This library's keys determine the
first state: four numbers, uniform in [-0.05, 0.05).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.tasks.control.episodes import VectorEpisode
from gradus.tasks.control.starts import Starts
from gradus.types import Key, Problem, Sampling
from gradus.types.parts import Task, World
from gradus.types.spaces import Choice, Space

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TAU = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
EDGE, TILT = 2.4, 12 * 2 * np.pi / 360
LIMIT = 500


def cartpole() -> Task:
    """Keep a pole on a cart upright. A turn is a push to the left or to the right. The reward is 1 per step, and an episode has at most 500 steps."""
    source = Starts("cartpole")
    return Task(
        "cartpole",
        source,
        replace(source, held_out=True),
        environment=CartPole(),
        about="keep a pole on a cart upright; for controllers, a turn is a push",
        sampling=Sampling(max_tokens=1),
    )


@dataclass(frozen=True)
class CartPole:
    """The environment of the cart. The observation is `state`: position (m), speed (m/s), angle (rad) and angular speed (rad/s), float32 [4]."""

    limit: int = LIMIT
    shows: ClassVar[frozenset[str]] = frozenset({"array"})
    acts: ClassVar[Space] = Choice(("left", "right"))

    def start(self, problem: Problem, key: Key, world: World) -> VectorEpisode:
        first = key.fold("start").uniform(4) * 0.1 - 0.05
        return VectorEpisode(first, moved, shown, Choice(("left", "right")).index, self.limit)


def shown(state: np.ndarray) -> Mapping[str, np.ndarray]:
    return {"state": state.astype(np.float32)}


def moved(state: np.ndarray, push: int) -> tuple[np.ndarray, float, bool]:
    """One Euler step."""
    x, speed, angle, turning = (float(v) for v in state)
    force = FORCE if push == 1 else -FORCE
    cos, sin = np.cos(angle), np.sin(angle)
    total, moment = POLE + CART, POLE * HALF_LENGTH
    pushed = (force + moment * np.square(turning) * sin) / total
    angular = (GRAVITY * sin - cos * pushed) / (HALF_LENGTH * (4.0 / 3.0 - POLE * np.square(cos) / total))
    linear = pushed - moment * angular * cos / total
    after = np.array([x + TAU * speed, speed + TAU * linear, angle + TAU * turning, turning + TAU * angular], np.float64)
    over = bool(abs(after[0]) > EDGE or abs(after[2]) > TILT)
    return after, 1.0, over
