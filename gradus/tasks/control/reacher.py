"""Reacher: a controller moves an arm with two joints until its fingertip touches a target. Only the touch has a reward.

The arm has two links of length 0.5 and is fixed at the origin. One step changes both joint angles. An action is a chunk of several steps: the controller
sees nothing between the steps of a chunk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

import numpy as np

from gradus.tasks.control.episodes import VectorEpisode
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Key, Problem, Sampling, unknown
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges
from gradus.types.spaces import Action, Box

LINK, TURN, LIMIT, CHUNK = 0.5, 0.4, 24, 4  # length of a link; most radians per joint and step; steps of an episode; steps of a chunk
LEVELS = {1: (0.3, 0.23), 2: (0.2, 0.12), 3: (0.12, 0.06)}
"""Level -> largest distance from the target that counts as a touch, and the measured chance that random actions touch the target."""
TOUCHED = 4  # index in a state: 1 if the target has been touched, else 0
NEAR, FAR = 0.5, 1.4  # bounds of the distance between the fingertip and the target at the start
SIDE = 24  # pixels of a picture


def reacher(level: int = 1, chunk: int = CHUNK, ends: bool = True, show: Literal["state", "image"] = "state") -> Task:
    """Touch a target with the fingertip of an arm; levels 1 to 3 have smaller and smaller targets. The first touch earns 1.

    `chunk`: the steps of one action. `ends`: whether the first touch ends the episode; if not, the episode continues to its limit. `show`: numbers
    (`state`), or a picture of 24 x 24 pixels for a controller with convolutions.
    """
    source = Generated("reacher", make, level, (min(LEVELS), max(LEVELS)))
    return Task(
        "reacher",
        source,
        replace(source, held_out=True),
        environment=Reacher(chunk=chunk, ends=ends, show=show),
        about="touch a target with an arm of two joints; for controllers, a turn is a chunk of steps",
        provides=frozenset({"difficulty"}),
        sampling=Sampling(max_tokens=1),
        level=level,
        chance=LEVELS[level][1] if level in LEVELS else 0.0,
    )


def make(rng: Random, level: int) -> Draft:
    """Makes the start of an episode: two angles in [-pi, pi), and a target that the arm can reach and that is not near the fingertip."""
    while True:
        angles = [round(rng.uniform(-np.pi, np.pi), 4) for _ in range(2)]
        target = [round(rng.uniform(-1, 1), 4) for _ in range(2)]
        state = np.array([*angles, *target])
        if math.hypot(*target) <= 2 * LINK and NEAR <= np.hypot(*(fingertip(state) - state[2:])) <= FAR:
            break
    return Draft("Touch the target.", None, None, f"{angles} {target}", Frozen(start=(*angles, *target), touch=LEVELS[level][0]))


@dataclass(frozen=True)
class Reacher:
    """The environment of the arm. `problem.meta["start"]` has the first angles and the target, so all episodes of a problem begin equally.

    The observation `state` is float32 [8]: cosine and sine of both angles, the fingertip, and the way from the fingertip to the target. The observation
    `picture` is uint8 [24, 24, 3]: the arm is red and the target is green.
    """

    limit: int = LIMIT  # largest number of steps; then the episode is truncated
    chunk: int = CHUNK
    ends: bool = True  # False: the episode continues after the first touch, without a further reward
    show: Literal["state", "image"] = "state"
    shows: frozenset[str] = frozenset({"array"})

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)", chunk="[1, inf)")
        if self.show not in ("state", "image"):
            raise unknown("way to show the arm", self.show, ("state", "image"), "In show of reacher")

    @property
    def acts(self) -> Box:
        """The space of actions: for every step of a chunk, the changes of both angles, in radians."""
        return Box((-TURN, -TURN), (TURN, TURN), chunk=self.chunk)

    def start(self, problem: Problem, key: Key, world: World) -> VectorEpisode:
        touch = float(problem.meta["touch"])
        first = np.array([*problem.meta["start"], 0.0], np.float64)
        show = shown if self.show == "state" else pictured
        return VectorEpisode(first, lambda state, turn: self.moved(state, turn, touch), show, self.read, self.limit, chunk=self.chunk)

    def moved(self, state: np.ndarray, turn: np.ndarray, touch: float) -> tuple[np.ndarray, float, bool]:
        """One step: the next state, the reward, and whether the episode is over."""
        after = moved(state, turn, touch)
        reward = after[TOUCHED] - state[TOUCHED]
        return after, float(reward), bool(self.ends and reward)

    def read(self, action: Action) -> np.ndarray | None:
        """Returns the steps of a chunk, float64 [chunk, 2]; a single step is [2]. None for an action of another size."""
        if isinstance(action, str) or np.size(action) != 2 * self.chunk:
            return None
        steps = np.asarray(action, np.float64).reshape(self.chunk, 2)
        return steps if self.chunk > 1 else steps[0]


def fingertip(state: np.ndarray) -> np.ndarray:
    """Returns the position of the fingertip, [2]. The second angle is measured from the first link."""
    first, second = state[0], state[0] + state[1]
    return LINK * np.array([np.cos(first) + np.cos(second), np.sin(first) + np.sin(second)])


def moved(state: np.ndarray, turn: np.ndarray, touch: float) -> np.ndarray:
    """Returns the state after one step: two angles, the target, and 1 if the fingertip has touched it.

    `turn` is the action: the changes of the two angles, which are clipped to the bounds of an action.
    """
    after = state.copy()
    after[:2] += np.clip(turn, -TURN, TURN)
    if np.hypot(*(fingertip(after) - after[2:TOUCHED])) <= touch:
        after[TOUCHED] = 1.0
    return after


def shown(state: np.ndarray) -> Mapping[str, np.ndarray]:
    tip, angles = fingertip(state), state[:2]
    return {"state": np.concatenate([np.cos(angles), np.sin(angles), tip, state[2:TOUCHED] - tip]).astype(np.float32)}


def pictured(state: np.ndarray) -> Mapping[str, np.ndarray]:
    """Draws the arm as 13 red points and the target as a green square of 3 x 3 pixels. The square [-1.1, 1.1]^2 fills the picture."""
    out = np.zeros((SIDE, SIDE, 3), np.uint8)
    row, column = pixel(state[2:TOUCHED])
    out[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2, 1] = 255
    elbow, tip = LINK * np.array([np.cos(state[0]), np.sin(state[0])]), fingertip(state)
    for share in np.linspace(0, 1, 7):
        for point in (share * elbow, elbow + share * (tip - elbow)):
            out[(*pixel(point), 0)] = 255
    return {"picture": out}


def pixel(point: np.ndarray) -> tuple[int, int]:
    """Returns the row and the column of a point. The first row is at the top."""
    column, down = ((np.array([point[0], -point[1]]) + 1.1) / 2.2 * SIDE).astype(int)
    return int(down), int(column)
