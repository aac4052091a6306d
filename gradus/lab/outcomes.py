"""Reads rewards and verdicts of stored answers, without their texts and tokens, for the distribution of rewards and the solve rates."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.lab import rollouts
from gradus.types.media import readable

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 200  # largest number of steps that are read from a run
_COLUMNS = tuple(
    f"{group}.list.element.{field}"
    for group, fields in (
        ("problems", ("id", "messages", "text")),
        ("trajectories", ("problem", "reward", "components", "trained")),
        ("groups", ("trajectories",)),
    )
    for field in fields
)


@dataclass(frozen=True)
class Outcomes:
    """The answers of one group: problem, start of the prompt, rewards (None: no reward), and the number of right answers."""

    step: int
    problem: str
    prompt: str
    rewards: tuple[float | None, ...]
    right: int

    @property
    def rate(self) -> float:
        """Returns the share of right answers."""
        return self.right / len(self.rewards)


def chosen_steps(steps: Sequence[int], most: int = MOST) -> list[int]:
    """Returns at most `most` of the steps: the first step, the last step, and evenly spaced steps between them."""
    if len(steps) <= most:
        return list(steps)
    return [steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)]


def outcomes(folder: Path, wanted: Collection[int]) -> list[Outcomes]:
    """Returns the groups of the wanted steps, in order. Auxiliary groups and groups without answers are left out."""
    return [one for table in rollouts.tables(folder, wanted, ("step", *_COLUMNS, "aside")) for one in _groups(table)]


def _groups(table: pa.Table) -> Iterator[Outcomes]:
    lists = {name: table.column(name).combine_chunks().flatten() for name in ("problems", "trajectories", "groups")}
    step = table.column("step")[0].as_py()
    aside = table.column("aside")[0].as_py() if "aside" in table.column_names else None
    problems = [lists["problems"].field(name).to_pylist() for name in ("id", "messages", "text")]
    answers = lists["trajectories"]
    rewards = [_number(reward) for reward in answers.field("reward").to_pylist()]
    trained = answers.field("trained").to_pylist()
    components = answers.field("components").to_pylist()
    problem_of = answers.field("problem").to_pylist()
    for index, rows in enumerate(lists["groups"].field("trajectories").to_pylist()):
        rows = [row for row in rows if trained[row]]
        if not rows or (aside and aside[index]):
            continue
        key, messages, text = (column[problem_of[rows[0]]] for column in problems)
        right = sum(_right(rewards[row], components[row]) for row in rows)
        yield Outcomes(step, key, _prompt(messages, text), tuple(rewards[row] for row in rows), right)


def _number(reward: Any) -> float | None:
    """Returns a stored reward as a finite number; None if there is none."""
    value = None if reward is None or reward["reason"] is not None else reward["value"]
    return value if value is not None and abs(value) != float("inf") and value == value else None


def _right(reward: float | None, components: Sequence[Any]) -> bool:
    """Returns the verdict as `Trajectory.right` gives it."""
    named = {c["name"]: c["outcome"] for c in components}
    verdict = next((_number(named[name]) for name in ("verified", "environment") if name in named), reward)
    return reward is not None and verdict is not None and verdict >= 1.0


def _prompt(messages: str, text: str | None, most: int = 160) -> str:
    """Returns the start of a problem's own text, or of its last message."""
    told = json.loads(messages) if text is None else []
    said = text if text is not None else readable(told[-1]) if told else ""
    return said if len(said) <= most else f"{said[:most]}…"
