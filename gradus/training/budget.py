"""The budget of a run in tokens, rollouts or seconds instead of steps. The run ends at the first boundary at which the budget is used up. The used amount is
computed from the run's metrics, so a resumed run continues with the same amount. A budget of seconds is computed from the timings, so two
runs with such a budget can end at different steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.types import UserError
from gradus.types.errors import nearest
from gradus.types.ranges import check_ranges

UNITS = ("steps", "tokens", "rollouts", "seconds")
UNCOUNTED = ("evaluate", "agreement")  # a budget does not count tokens with these purposes, because they only measure the run


@dataclass(frozen=True)
class Budget:
    """The amount that a run may use, counted in one `unit`. The run makes `points` evaluations, one after each equal share of this amount.

    `steps`: training steps. `tokens`: all tokens that are sampled, scored or used for training, for every player. A token that is used again counts
    again. Tokens of evaluations and of the check of the rollout mismatch do not count. `rollouts`: all trajectories, including trajectories that no
    update uses. `seconds`: the time of rollouts and updates, without evaluations.
    """

    unit: str
    amount: float
    points: int = 10

    def __post_init__(self) -> None:
        check_ranges(self, amount="(0, inf)", points="[1, inf)")
        if self.unit not in UNITS:
            raise UserError(f'the unit of a budget is "{self.unit}"; it must be one of {", ".join(UNITS)}{nearest(self.unit, UNITS)}')

    def __str__(self) -> str:
        return f"{self.unit}={self.amount:g}"

    def due(self, before: float, now: float) -> bool:
        """Whether an evaluation is due, because the used share of the budget rose from `before` to `now`."""
        return math.floor(now * self.points + 1e-9) > math.floor(before * self.points + 1e-9)

    def steps(self, done: int, share: float, planned: int) -> int:
        """Returns the expected number of all steps, if every step costs as much as the steps so far. Before the first step, returns `planned`."""
        return max(done + (share < 1), math.ceil(done / share)) if share > 0 else max(planned, 1)


def budget_of(text: str, points: int = 10) -> Budget:
    """Reads a budget such as "tokens=2e6". Raises UserError if the text is not a budget.

    >>> budget_of("tokens=2e6")
    Budget(unit='tokens', amount=2000000.0, points=10)
    """
    unit, equals, amount = text.partition("=")
    try:
        number = float(amount.replace("_", "").replace(",", ""))
    except ValueError:
        number = math.nan
    if not equals or not math.isfinite(number) or number <= 0:
        raise UserError(f'--budget is "{text}"; write {" or ".join(f"{unit}=N" for unit in UNITS)}, with a number N above 0')
    return Budget(unit.strip(), number, points)


def spent(unit: str, rows: Sequence[Mapping[str, Any]], seconds: Mapping[int, float]) -> float:
    """Returns the amount of `unit` that steps have used.

    Args: rows: the steps' rows of the metrics; seconds: the seconds of each step.
    """
    return sum(spent_by(unit, row, seconds) for row in rows)


def spent_by(unit: str, row: Mapping[str, Any], seconds: Mapping[int, float]) -> float:
    """Returns the amount of `unit` that one step has used, from the step's row of the metrics. For a row that has only an evaluation, the amount is 0."""
    if "reward" not in row:
        return 0.0
    match unit:
        case "steps":
            return 1.0
        case "tokens":
            return tokens(row)
        case "rollouts":
            return row.get("rollouts") or 0.0
        case _:
            return seconds.get(int(row["step"]), 0.0)


def tokens(row: Mapping[str, Any]) -> float:
    """Returns the number of tokens of a step that a budget counts.

    Only metrics such as `tokens/rollout` are added. `tokens/rollout/critic` is already included in `tokens/rollout`.
    """
    return sum(value for name, value in row.items() if counted(name) and isinstance(value, (int, float)))


def counted(name: str) -> bool:
    """Whether the metric `name` is the number of tokens of a purpose that a budget counts."""
    return name.startswith("tokens/") and name.count("/") == 1 and name.removeprefix("tokens/") not in UNCOUNTED
