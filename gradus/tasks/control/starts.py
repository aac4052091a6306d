"""The problems of a control environment: an endless numbered sequence of starts.

The episode's key determines the start, so a problem contains only its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradus.types import Frozen, Key, Problem


@dataclass(frozen=True)
class Starts:
    """The starts of an environment, by number. Held-out starts have other ids, and so other keys."""

    task: str
    held_out: bool = False
    size: int | None = None

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        kind, text = ("held-out", "held-out start") if self.held_out else ("start", "start")
        return [Problem(f"{self.task}/{kind}/{i}", self.task, text=f"{text} {i}", meta=Frozen(start=int(i))) for i in indices]
