"""Toy tasks for controllers: a short pendulum with recorded transitions, and an arm. Also has a function that makes recipes small enough for these tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from gradus.tasks.control.pendulum import Pendulum, pendulum
from gradus.tasks.control.reacher import reacher
from gradus.types.frozen import value_fields
from gradus.types.parts import Task
from gradus.types.players import Fresh

SCALE: Mapping[str, int] = {"size": 4096, "batch": 12, "warmup": 8, "idle": 2, "length": 6, "per_row": 1}
"""Name of a field -> its largest value in a toy run. The limits apply to the parts in `SCALED`, which count turns, rows or rounds."""
SCALED = ("TransitionReplay", "Lanes")


def toy_control(count: int = 40) -> Task:
    """Returns the pendulum task with episodes of 9 turns and with `count` recorded transitions of random torques."""
    return replace(pendulum(recorded=count), environment=Pendulum(limit=9))


def toy_reacher() -> Task:
    """Returns the task of an arm, with episodes of 6 chunks. An episode succeeds or fails, so methods that compare successes can learn from this task."""
    return reacher()


def cut_down(part: Any) -> Any:
    """Returns the part with small networks. In parts of the classes in `SCALED`, no number is above its limit in `SCALE`."""
    if isinstance(part, Mapping):
        return type(part)({name: cut_down(value) for name, value in part.items()})  # type: ignore[call-arg]
    if not is_dataclass(part) or isinstance(part, type):
        return part
    if isinstance(part, Fresh):
        return replace(part, hidden=(8,))
    found = {f.name: getattr(part, f.name) for f in value_fields(part) if f.init}
    changed = {name: cut_down(value) for name, value in found.items()}
    if type(part).__name__ in SCALED:
        changed |= {name: min(found[name], most) for name, most in SCALE.items() if name in found}
    return replace(part, **{name: value for name, value in changed.items() if value is not found[name]})
