"""Replay of transitions: trains again on single transitions of earlier or recorded episodes, in many rounds per training step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradus.types import Context, Ended, Frozen, Group, Key, Problem, Trajectory, UserError
from gradus.types.contexts import Seen
from gradus.types.control import NEXT, TO_GO, check_arrays
from gradus.types.ranges import check_ranges

Rows = dict[str, np.ndarray]
"""Columns of transitions: before.NAME and next.NAME [N, ...], action, reward float32, done bool (terminated), row int64."""

BEFORE = "before."


@dataclass(frozen=True)
class TransitionReplay:
    """Keeps up to `size` transitions of all steps and removes the oldest first.

    A round is a trajectory of `batch` rows, which are drawn with repetition.

    Rows have numbers from 0 on, in the order of their collection. Recorded rows (source "replay") have the numbers -1, -2, ... A round has the streams
    `reward`, `done`, `next.NAME`, `row` and `key`. `done` is 1 if the episode terminated; a truncated episode is not done. `key` is the key of the random draws
    in the round. If the action space is a Box, there is also `action`. Recorded rows may also have `to_go`.
    """

    size: int = 1_000_000  # largest number of rows that are kept
    batch: int = 256  # rows per round
    per_row: int = 1  # number of rounds for every collected row: the ratio of updates to data
    idle: int = 50  # number of rounds in a step that collects no row, such as a step that only reads recorded rows
    warmup: int = 0  # the first round waits until this number of rows is collected
    gives: ClassVar[frozenset[str]] = frozenset({"rows"})

    def __post_init__(self) -> None:
        check_ranges(self, size="[1, inf)", batch="[1, inf)", per_row="[0, inf)", idle="[0, inf)", warmup="[0, inf)")

    def check_task(self, task: Any) -> None:
        """Raises UserError if the task's environment shows text."""
        check_arrays(self, task)

    def start(self) -> dict[str, Any]:
        return {"rows": {}, "collected": 0, "recorded": 0, "new": 0}

    def keep(self, groups: Sequence[Group], key: Key, state: dict[str, Any]) -> tuple[list[Group], list[Group], dict[str, Any]]:
        """Keeps all groups and adds their transitions to the pool. Raises UserError for trajectories without arrays."""
        rows, collected, recorded = state["rows"], state["collected"], state["recorded"]
        for trajectory in (t for g in groups for t in g.trajectories if t.trained and t.actions):
            offline = trajectory.source == "replay"
            found = rows_of(trajectory)
            count = len(found["reward"])
            found["row"] = -1 - recorded - np.arange(count) if offline else collected + np.arange(count)
            recorded, collected = (recorded + count, collected) if offline else (recorded, collected + count)
            rows = joined(rows, found)
        rows = {name: column[-self.size :] for name, column in rows.items()}
        after = {"rows": rows, "collected": collected, "recorded": recorded, "new": collected - state["collected"]}
        return list(groups), [], after

    def rounds(self, kept: Sequence[Group], key: Key, state: dict[str, Any]) -> tuple[Iterator[list[Group]], dict[str, Any]]:
        """Returns the groups of each round and the unchanged state. The groups are made when they are needed."""
        rows = state["rows"]

        def drawn() -> Iterator[list[Group]]:
            for i in range(self.due(state)):
                own = key.fold("replay", i)
                places = (own.fold("rows").uniform(self.batch) * len(rows["reward"])).astype(np.int64)
                yield [Group(f"replay/{own.value:016x}", (batch_of({name: column[places] for name, column in rows.items()}, own),))]

        return drawn(), state

    def due(self, state: Mapping[str, Any]) -> int:
        """Returns the number of rounds in this step."""
        if not len(state["rows"].get("reward", ())):
            return 0
        if not state["new"]:
            return self.idle
        return self.per_row * min(state["new"], max(0, state["collected"] - self.warmup))


def rows_of(trajectory: Trajectory) -> Rows:
    """Returns the transitions of a trajectory. Raises UserError if the trajectory has no arrays, or lacks an observation before or after an action."""
    columns: list[Rows] = []
    for i, context in enumerate(trajectory.contexts):
        if not context.actions:
            continue
        if not context.shown:
            raise UserError(
                f"TransitionReplay stores steps of environments that show arrays, but trajectory {trajectory.id} shows text; set --selection "
                "Replay, which stores whole answers, or take a task for controllers"
            )
        columns.append(_rows_in(context, trajectory.id, last=i + 1 == len(trajectory.contexts) and trajectory.ended is Ended.ENVIRONMENT))
    return joined({}, *columns)


def _rows_in(context: Context, name: str, last: bool) -> Rows:
    """Returns the transitions of a context. `last`: whether the last action of the context terminated the episode."""
    places = context.action_positions
    rows: Rows = {}
    for seen in context.shown:
        before = np.searchsorted(seen.at, places) - 1
        if before.min() < 0 or before.max() + 1 >= len(seen.at) or (seen.at[before + 1] < places).any():
            raise UserError(
                f"TransitionReplay needs {seen.name} before and after every action, but trajectory {name} lacks {seen.name} before or after an action; "
                "take the rollout Lanes or Episodes, and an environment that shows arrays"
            )
        rows[BEFORE + seen.name] = seen.rows[before]
        rows[NEXT + seen.name] = context.streams.get(NEXT + seen.name, seen.rows[before + 1])
    reward, done = np.zeros(context.actions, np.float64), np.zeros(context.actions, bool)
    for at, _, value in context.rewards:
        reward[at] += value
    done[-1] = last
    action = context.streams["action"] if "action" in context.streams else context.tokens[context.chosen].astype(np.int64)
    recorded = {n: np.asarray(context.streams[n]) for n in ("done", "reward", TO_GO) if n in context.streams}
    return {**rows, "action": action, "reward": reward.astype(np.float32), "done": done, **recorded}


def joined(rows: Rows, *more: Rows) -> Rows:
    """Appends the rows of each column one after another. Raises UserError if the names of the columns differ."""
    pieces = [r for r in (rows, *more) if r]
    names = [sorted(n for n in piece if n != "row") for piece in pieces]
    if any(other != names[0] for other in names):
        new = ", ".join(next(n for n in names if n != names[0]))
        raise UserError(
            f"the rows of a replay have the columns {', '.join(names[0])}, but new rows have {new}; all rows must have the same columns"
        )
    return {
        name: np.concatenate([piece[name] for piece in pieces]) if len(pieces) > 1 else pieces[0][name]
        for name in (pieces[0] if pieces else ())
    }


def batch_of(rows: Mapping[str, np.ndarray], key: Key) -> Trajectory:
    """Makes a trajectory with one context from these transitions. In the context, observations and actions alternate."""
    n = len(rows["reward"])
    at, length = np.arange(0, 2 * n, 2, dtype=np.int32), np.ones(n, np.int32)
    seen = tuple(
        Seen(name.removeprefix(BEFORE), "array", column, at.copy(), length.copy())
        for name, column in rows.items()
        if name.startswith(BEFORE)
    )
    tokens, chosen = np.zeros(2 * n, np.int32), np.tile([False, True], n)
    streams = {name: column for name, column in rows.items() if not name.startswith(BEFORE)}
    if rows["action"].dtype.kind == "i":
        tokens[1::2] = streams.pop("action")
    streams["key"] = np.full(n, key.value, np.uint64)
    context = Context(tokens, chosen, streams=Frozen(streams), seen=seen)
    problem = Problem("replay", "replay", text="")
    return Trajectory(f"replay/{key.value:016x}", problem, (context,), reward=float(rows["reward"].sum()), source="replay")
