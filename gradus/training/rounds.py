"""The rounds of a step. In each round, the run trains on the groups that the selection returns for this round.

If a selection has no method `rounds`, there is one round with all kept groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradus.types import Frozen, Group, Trajectory
from gradus.types.parts import Signals

if TYPE_CHECKING:
    from gradus.recipe.core import Recipe
    from gradus.training.run import Run
    from gradus.training.world import RunWorld


async def rounds(run: Run, recipe: Recipe, kept: Sequence[Group], world: RunWorld) -> Iterator[tuple[list[Group], RunWorld]]:
    """Yields, for every round of the step, the groups and the `World` of the round. The first round has the step's own `World`. A later round has other
    random draws.
    """
    if not hasattr(recipe.selection, "rounds"):
        return iter([(list(kept), world)])
    drawn = await run.memory.call("selection", recipe.selection, "rounds", kept, world.key)
    return ((list(groups), world.again(i)) for i, groups in enumerate(drawn))


def averaged(metrics: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the mean of every metric over the rounds that have this metric. Without rounds there are no metrics."""
    if len(metrics) == 1:
        return dict(metrics[0])
    names = dict.fromkeys(name for found in metrics for name in found)
    return {name: float(np.mean([found[name] for found in metrics if name in found])) for name in names}


def with_streams_of(groups: Sequence[Group], objective: Mapping[str, Any], signals: Signals) -> list[Group]:
    """Adds to the groups the streams that terms need. A term's `streams` maps a name to a signal; the signal's rows become the stream."""
    asked = {name: signal for term in objective.values() for name, signal in getattr(term, "streams", {}).items()}
    if not asked:
        return list(groups)

    def shown(trajectory: Trajectory) -> Trajectory:
        cuts = np.cumsum([c.actions for c in trajectory.contexts])[:-1]
        pieces = {name: np.split(signals[signal][trajectory.id], cuts) for name, signal in asked.items()}
        contexts = (
            replace(c, streams=Frozen({**c.streams, **{n: rows[i] for n, rows in pieces.items()}})) for i, c in enumerate(trajectory.contexts)
        )
        return trajectory.but(contexts=tuple(contexts))

    return [g.but(trajectories=tuple(map(shown, g.trajectories))) for g in groups]
