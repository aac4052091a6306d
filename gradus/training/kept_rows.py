"""Log-probabilities under constant players, for answers that a run reads more than once: given answers and replayed answers. The weights of a constant
player never change.

The rows are part of the run's state, so a run that continues from a checkpoint has the same rows. If the same context is read again, the stored rows are
used, and
the model is not called.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from gradus.types import Context, Trajectory
from gradus.types.signals import LogProbs, Signal

PLACE = "rows"
"""The place of the rows in the memory of the run."""

MOST = 8_000_000
"""The largest number of kept log-probabilities (32 MB, because the run copies its states before each step). The rows of the oldest steps are removed first."""

Read = Callable[[Sequence[int]], Awaitable[list[np.ndarray]]]
"""Reads the rows of the contexts with these indices."""


class KeptRows:
    """The rows by context. `states`: the states of the run, with the rows; `players`: the names of the constant players."""

    def __init__(self, states: dict[str, Any], players: Collection[str], step: int, most: int = MOST) -> None:
        self.states, self.players, self.step, self.most = states, frozenset(players), step, most

    def keeps(self, signal: Signal) -> bool:
        """Whether the rows of a signal can be kept."""
        return isinstance(signal, LogProbs) and not signal.fresh and signal.player in self.players

    async def read(self, signal: Signal, trajectories: Sequence[Trajectory], contexts: Sequence[Context], read: Read) -> list[np.ndarray]:
        """Returns the rows of every context. Reads only the missing rows, and keeps the rows of answers that the run may read again."""
        names = [name_of(signal, context) for context in contexts]
        known = self._known()
        left = [i for i, name in enumerate(names) if name not in known]
        rows = dict(zip(left, await read(left) if left else [], strict=True))
        self._keep({names[i]: row for i, row in rows.items() if self._again(trajectories[i])})
        return [rows[i] if i in rows else known[name] for i, name in enumerate(names)]

    def _again(self, trajectory: Trajectory) -> bool:
        """Whether an answer is given, or was sampled in an earlier step."""
        return trajectory.source != "policy" or trajectory.id.partition("/")[0] != str(self.step)

    def _known(self) -> Mapping[bytes, np.ndarray]:
        found: dict[bytes, np.ndarray] = {}
        for step in self.states[PLACE]["state"]["steps"] if PLACE in self.states else ():
            found |= zip(map(bytes, step["names"]), np.split(step["rows"], np.cumsum(step["counts"])[:-1]), strict=True)
        return found

    def _keep(self, rows: Mapping[bytes, np.ndarray]) -> None:
        if not rows:
            return
        state = self.states.setdefault(PLACE, {"part": "KeptRows", "state": {"steps": []}})["state"]
        names = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
        counts = np.array([len(row) for row in rows.values()], np.int64)
        steps = [*state["steps"], {"names": names, "counts": counts, "rows": np.concatenate(list(rows.values()))}]
        later = np.cumsum([len(step["rows"]) for step in reversed(steps)])[::-1]  # how many numbers each step and all later steps have together
        state["steps"] = [step for step, numbers in zip(steps, later, strict=True) if numbers <= self.most]


def name_of(signal: Signal, context: Context) -> bytes:
    """Returns a digest of everything on which the log-probabilities depend: the player, the tokens and their media, the actions
    and their streams, and the temperature.
    """
    told = hashlib.blake2b(context.beginning(len(context.sequence)), digest_size=16)
    told.update(context.action_positions.tobytes())
    for stream, rows in sorted(context.streams.items()):
        told.update(f"{stream}/{rows.dtype}/{rows.shape}".encode() + rows.tobytes())
    told.update(f"{signal.player}/{context.temperature!r}".encode())
    return told.digest()
