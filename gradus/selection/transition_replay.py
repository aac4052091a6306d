"""Replay of transitions: single steps of earlier episodes, or recorded ones, are trained on again, many rounds a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradus.types import Context, Ended, Frozen, Group, Key, Problem, Trajectory, UserError
from gradus.types.contexts import Seen
from gradus.types.control import NEXT
from gradus.types.ranges import check_ranges

Rows = dict[str, np.ndarray]
"""Columns of transitions: before.NAME and next.NAME [N, ...], action, reward float32, done bool (terminated), row int64."""

BEFORE = "before."


@dataclass(frozen=True)
class TransitionReplay:
    """Keeps the transitions of all steps, the oldest leave first. A round is one trajectory of `batch` rows, drawn with repetition.

    Rows are numbered from 0 in the order in which they were collected; recorded rows (source "replay") from -1 down. The streams of a round:
    `reward`, `done` (terminated; a truncated episode is not done), `next.NAME`, `row`, `key` (of the round's draws), and `action` in a Box.
    """

    size: int = 1_000_000  # rows that are kept
    batch: int = 256  # rows of a round
    rounds: int = 1  # rounds for every collected row: the ratio of updates to data
    idle: int = 0  # rounds of a step that collects no row, for learning from recorded rows alone
    warmup: int = 0  # no round before this many rows were collected
    keep_offline: bool = True  # whether recorded rows stay once a row is collected
    gives: ClassVar[frozenset[str]] = frozenset({"rows"})

    def __post_init__(self) -> None:
        check_ranges(self, size="[1, inf)", batch="[1, inf)", rounds="[0, inf)", idle="[0, inf)", warmup="[0, inf)")

    def start(self) -> dict[str, Any]:
        return {"rows": {}, "collected": 0, "recorded": 0, "new": 0}

    def keep(self, groups: Sequence[Group], key: Key, state: dict[str, Any]) -> tuple[list[Group], list[Group], dict[str, Any]]:
        """Keeps all groups and adds their transitions to the pool. Raises UserError for trajectories that show no arrays."""
        rows, collected, recorded = state["rows"], state["collected"], state["recorded"]
        for trajectory in (t for g in groups for t in g.trajectories if t.trained and t.actions):
            offline = trajectory.source == "replay"
            found = rows_of(trajectory)
            count = len(found["reward"])
            found["row"] = -1 - recorded - np.arange(count) if offline else collected + np.arange(count)
            recorded, collected = (recorded + count, collected) if offline else (recorded, collected + count)
            rows = joined(rows, found)
        if rows and collected and not self.keep_offline:
            online = rows["row"] >= 0
            rows = {name: column[online] for name, column in rows.items()}
        rows = {name: column[-self.size :] for name, column in rows.items()}
        after = {"rows": rows, "collected": collected, "recorded": recorded, "new": collected - state["collected"]}
        return list(groups), [], after

    def rounds_of(self, state: Mapping[str, Any]) -> int:
        """The number of rounds of this step."""
        if not state["rows"] or not len(state["rows"]["reward"]):
            return 0
        if not state["new"]:
            return self.idle
        return self.rounds * state["new"] if state["collected"] >= self.warmup else 0

    def rounds_by(self, kept: Sequence[Group], key: Key, state: dict[str, Any]) -> Iterator[list[Group]]:
        """The groups of the rounds, each made when it is asked for."""
        rows = state["rows"]
        for i in range(self.rounds_of(state)):
            own = key.fold("replay", i)
            drawn = (own.fold("rows").uniform(self.batch) * len(rows["reward"])).astype(np.int64)
            yield [Group(f"replay/{own.value:016x}", (batch_of({n: c[drawn] for n, c in rows.items()}, own),))]
