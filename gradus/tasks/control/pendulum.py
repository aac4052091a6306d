"""Pendulum: a weak motor swings a hanging pendulum up and holds it there. An episode never ends before its limit; it is truncated after 200 steps. From the
same state, the motion equals that of gymnasium's Pendulum-v1 bit by bit. The torque u is in [-2, 2], the reward is -(angle^2 + 0.1 speed^2 + 0.001
u^2), the angle is in [-pi, pi), and 0 is upright. This library's keys determine the first angle, uniform in [-pi, pi), and the first speed, uniform in
[-1, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradus.tasks.control.episodes import VectorEpisode
from gradus.tasks.control.starts import Starts
from gradus.types import Key, Problem, Sampling, UserError
from gradus.types.parts import Task, Transitions, World
from gradus.types.spaces import Action, Box, Space

SPEED, TORQUE, DT, GRAVITY, MASS, LENGTH = 8.0, 2.0, 0.05, 10.0, 1.0, 1.0
LIMIT = 200


def pendulum(recorded: int = 0) -> Task:
    """Swing a pendulum up and hold it; a turn is a torque. The return of an episode is usually between -1,700 and 0.

    Args: recorded: number of recorded transitions in the task, for recipes that learn from recorded transitions; 0: none. See `random_turns`.
    """
    source = Starts("pendulum")
    if recorded < 0:
        raise UserError(f"--task.recorded is {recorded}; give a number of transitions, at least 0")
    made = Task(
        "pendulum",
        source,
        replace(source, held_out=True),
        environment=Pendulum(),
        about="swing a pendulum up and hold it; for controllers, a turn is a torque",
        sampling=Sampling(max_tokens=1),
    )
    return replace(made, transitions=random_turns(recorded), provides=frozenset({"transitions"})) if recorded else made


def random_turns(count: int) -> Transitions:
    """`count` transitions with uniform torques from uniform states (angle in [-3, 3), speed in [-2, 2)). Every tenth transition is marked as the end of an
    episode."""
    states = Key(1).uniform(count, 2) * np.array([6.0, 4.0]) - np.array([3.0, 2.0])
    torques = (Key(2).uniform(count, 1) * 4 - 2).astype(np.float32)
    after = [moved(s, a.astype(np.float64)) for s, a in zip(states, torques, strict=True)]
    before, following = (np.stack([shown(s)["state"] for s in rows]) for rows in (states, [s for s, _, _ in after]))
    ends = np.arange(count) % 10 == 9
    reward = np.array([r for _, r, _ in after], np.float32)
    return Transitions({"state": before}, torques, reward, {"state": following}, np.zeros(count, bool), ends)


@dataclass(frozen=True)
class Pendulum:
    """The environment of the pendulum. The observation is `state`: cosine and sine of the angle, and the angular speed (rad/s), float32 [3]."""

    limit: int = LIMIT
    shows: ClassVar[frozenset[str]] = frozenset({"array"})
    acts: ClassVar[Space] = Box((-TORQUE,), (TORQUE,))

    def start(self, problem: Problem, key: Key, world: World) -> VectorEpisode:
        first = (key.fold("start").uniform(2) * 2 - 1) * np.array([np.pi, 1.0])
        return VectorEpisode(first, moved, shown, read, self.limit)


def read(action: Action) -> np.ndarray | None:
    """Returns the torque of an action, as an array of one number; None for a text."""
    return None if isinstance(action, str) else np.asarray(action, np.float64).reshape(-1)


def shown(state: np.ndarray) -> Mapping[str, np.ndarray]:
    angle, speed = state
    return {"state": np.array([np.cos(angle), np.sin(angle), speed], np.float32)}


def moved(state: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """One step; a torque beyond the bounds is clipped."""
    angle, speed = state
    torque = np.clip(action, -TORQUE, TORQUE)[0]
    cost = (((angle + np.pi) % (2 * np.pi)) - np.pi) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
    faster = speed + (3 * GRAVITY / (2 * LENGTH) * np.sin(angle) + 3.0 / (MASS * LENGTH**2) * torque) * DT
    faster = np.clip(faster, -SPEED, SPEED)
    return np.array([angle + faster * DT, faster], np.float64), -float(cost), False
