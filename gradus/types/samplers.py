"""Samplers of flow generators. A sampler goes from noise (t = 1) to data (t = 0) in steps that are affine in the network's velocity.

A step at time t changes x to  pull * x + gain * v(x, t) + spread * e,  where e is standard normal. The numbers pull, gain and spread depend only on the time
grid. A step with spread > 0 is an action with a Gaussian log-probability. A step with spread 0 is deterministic and is no action.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from gradus.types import UserError


@dataclass(frozen=True)
class Step:
    """One step of a sampler: next x = pull * x + gain * v(x, time) + spread * e."""

    time: float  # in (0, 1]; 1 is noise
    pull: float
    gain: float  # negative, because time decreases
    spread: float  # standard deviation, 0 or more


class Sampler(Protocol):
    def path(self) -> tuple[Step, ...]:
        """The steps, from t = 1 to t = 0."""
        ...


def _check_steps(name: str, steps: int) -> None:
    if steps < 1:
        raise UserError(f"{name}: `steps` is {steps}; it must be 1 or more")


@dataclass(frozen=True)
class Ode:
    """Euler steps of dx = v dt on an even grid: x' = x - v / steps. The initial noise determines the sample."""

    steps: int = 40

    def __post_init__(self) -> None:
        _check_steps("ode", self.steps)

    def path(self) -> tuple[Step, ...]:
        return tuple(Step(1 - k / self.steps, 1.0, -1 / self.steps, 0.0) for k in range(self.steps))


@dataclass(frozen=True)
class Sde:
    """Euler-Maruyama steps of the SDE that has the same marginals as the ODE. The grid is even, time decreases, and dt = 1 / steps:

        x' = x - [v + s^2 / (2 t) (x + (1 - t) v)] dt + s sqrt(dt) e,   s = noise * sqrt(t / (1 - t)).

    At t = 1, s would be infinite. So this step takes 1 - t from the next time of the grid. Reference: Flow-GRPO, arXiv:2505.05470, section 4.2.
    """

    steps: int = 10
    noise: float = 0.7  # a, 0 or more; 0 gives the ODE

    def __post_init__(self) -> None:
        _check_steps("sde", self.steps)
        if self.noise < 0:
            raise UserError(f"sde: `noise` is {self.noise}; it must be 0 (the ODE) or more")

    def path(self) -> tuple[Step, ...]:
        return tuple(sde_step(1 - k / self.steps, 1 / self.steps, self.noise) for k in range(self.steps))


def sde_step(time: float, dt: float, noise: float) -> Step:
    """The step of `Sde` from `time` to time - dt: pull = 1 - c, gain = -dt - c (1 - t), c = s^2 dt / (2 t), spread = s sqrt(dt)."""
    s = noise * math.sqrt(time / (1 - min(time, 1 - dt)))
    c = s * s * dt / (2 * time)
    return Step(time, 1 - c, -dt - c * (1 - time), s * math.sqrt(dt))


@dataclass(frozen=True)
class Drawing:
    """The sampler of a flow generator. `keep`: the actions are all random steps ("steps"), or only the finished sample ("sample")."""

    sampler: Sampler = Ode()
    keep: Literal["steps", "sample"] = "sample"
