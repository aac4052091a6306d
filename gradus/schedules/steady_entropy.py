"""Steers the temperature so that the policy keeps the entropy of the first step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gradus.schedules.paths import with_value
from gradus.types.errors import UserError
from gradus.types.moments import Event, Moment
from gradus.types.ranges import check_ranges

TEMPERATURE = "setting.temperature"


def steered(temperature: float, entropy: float, target: float, vocabulary: int) -> float:
    """Returns the next temperature: tau (1 + tau ln(target / entropy) / (ln V + ln ln V)). Entropies in nats, above 0.

    >>> round(steered(1.0, 0.5, 1.0, 32), 4), round(steered(1.0, 2.0, 1.0, 32), 4)
    (1.1472, 0.8528)
    """
    size = math.log(vocabulary)
    return temperature * (1 + temperature * math.log(target / entropy) / (size + math.log(size)))


def annealed(progress: float, factor: float) -> float:
    """Returns (1 - f) (1 + cos(pi t)) / 2 + f, where f is `factor`. The result is 1 at the progress t = 0, and f at t = 1.

    >>> annealed(0.0, 0.9), annealed(1.0, 0.9)
    (1.0, 0.9)
    """
    return (1 - factor) * 0.5 * (1 + math.cos(math.pi * progress)) + factor


@dataclass(frozen=True)
class SteadyEntropy:
    """Steers the temperature so that the entropy of the policy stays at its value in the first step. In the last part of the run (the share `end` of its
    steps), this target falls to `factor` times the entropy of the first step.

    A step without an update changes nothing.

    Reference: Liao et al., Enhancing Efficiency and Exploration in Reinforcement Learning for LLMs (E3-RL4LLMs), arXiv:2505.18573.
    """

    vocabulary: int = 152_064  # V, the size of the model's vocabulary
    end: float = 0.4  # the target falls over this share of the steps, at the end of the training
    factor: float = 0.9  # the target at the end, as a share of the first entropy
    low: float = 0.1  # smallest temperature
    high: float = 10.0  # largest temperature

    def __post_init__(self) -> None:
        check_ranges(self, vocabulary="[3, inf)", end="[0, 1]", factor="(0, 1]", low="(0, inf)", high="(0, inf)")
        if self.low > self.high:
            raise UserError(f"SteadyEntropy.low is {self.low}, which is above SteadyEntropy.high ({self.high}); set `low` to {self.high} or less")

    def start(self) -> dict[str, Any]:
        return {"temperature": None, "first": None}

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        return ((TEMPERATURE, self.low), (TEMPERATURE, self.high))

    def at(self, now: Moment, recipe: Any, state: dict[str, Any]) -> tuple[Any, tuple[Event, ...], dict[str, Any]]:
        """Returns the recipe with the next temperature. The state has this temperature, and the entropy of the first step with an update."""
        given = 1.0 if recipe.setting.temperature is None else recipe.setting.temperature
        value = given if state["temperature"] is None else state["temperature"]
        entropy, first = now.last.get("entropy"), state["first"]
        if entropy is not None and "learning_rate" in now.last:
            if first is None:
                first = entropy
            elif entropy > 0 and first > 0:
                target = first * annealed(self.ended(now.step - 1, now.steps), self.factor)
                value = min(max(steered(value, entropy, target, self.vocabulary), self.low), self.high)
        return with_value(recipe, TEMPERATURE, value), (), {"temperature": value, "first": first}

    def ended(self, step: int, steps: int) -> float:
        """Returns the finished share of the end phase, in [0, 1], after `step` of `steps` steps.

        >>> [SteadyEntropy().ended(step, 100) for step in (50, 60, 80, 100)]
        [0.0, 0.0, 0.5, 1.0]
        """
        length = int(steps * self.end)
        return min(max((step - (steps - length)) / length, 0.0), 1.0) if length else 0.0
