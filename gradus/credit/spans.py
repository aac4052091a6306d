"""Reads the spans that a rollout has marked. A span is a numbered region of the actions of a context."""

from __future__ import annotations

import numpy as np

from gradus.types import Trajectory, UserError

SPAN = "span"  # the stream with the region's number for each action, -1 for an action in no region


def spans_of(trajectory: Trajectory) -> np.ndarray:
    """Returns int [A]: the number of each action's region in its context, -1 for an action in no region. Raises UserError without such a stream."""
    acting = [c for c in trajectory.contexts if c.actions]
    if any(SPAN not in c.streams for c in acting):
        raise UserError(f"trajectory {trajectory.id} has no spans: its rollout has marked no regions of the text; set --rollout WithSpans")
    return np.concatenate([c.streams[SPAN] for c in acting]) if acting else np.zeros(0, np.int32)


def sums_to_go(values: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """Returns [A]: for each action, the sum of the values of the spans that end at this action or later; 0 after the end of the last span.

    >>> sums_to_go(np.array([1.0, 10.0]), np.array([-1, 0, -1, 1, -1])).tolist()
    [11.0, 11.0, 10.0, 10.0, 0.0]
    """
    ends = [int(np.flatnonzero(spans == k)[-1]) for k in np.unique(spans[spans >= 0])]
    after = np.append(np.cumsum(values[::-1])[::-1], 0.0)
    return after[np.searchsorted(ends, np.arange(len(spans)))]
