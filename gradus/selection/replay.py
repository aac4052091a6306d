"""Replay: trains again on groups of earlier steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gradus.selection.laws import Law, Uniform
from gradus.types import Group, Key
from gradus.types.kept import group_of, kept_group
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Replay:
    """Keeps groups of earlier steps and draws some of them at every step. The behaviour log-probabilities are still those from the time of sampling.

    A unit is a group or a trajectory. If several trajectories of the same group are drawn together, they form a group again. If the law draws a unit k times,
    the batch contains the unit once, with the sum of the k weights. The priority of a unit is its mean |advantage| in the last update that used the unit. A
    new unit gets the largest priority of the kept units, or 1 if this priority is 0 or no unit is kept.
    """

    size: int = 1024  # largest number of units that are kept; the oldest units are removed first
    batch: int | None = None  # units drawn per step; None: the number of new units of the step
    law: Law = Uniform()
    unit: Literal["group", "trajectory"] = "group"
    fresh: bool = True  # True: trains on the step's own units and on drawn units of earlier steps; False: only on drawn units, new or old
    least: int = 0  # the first update waits until this number of units is kept
    source: str | None = None  # new source of the trajectories of earlier steps, such as "replay"; None: their source does not change

    def __post_init__(self) -> None:
        check_ranges(self, size="[1, inf)", batch="[1, inf)", least="[0, inf)")

    def start(self) -> dict[str, Any]:
        return {"units": [], "priorities": np.zeros(0), "groups": 0}

    def keep(self, groups: Sequence[Group], key: Key, state: dict[str, Any]) -> tuple[list[Group], list[Group], dict[str, Any]]:
        before, after = state, self._with(state, groups)
        new = len(groups) if self.unit == "group" else sum(len(g.trajectories) for g in groups)
        if len(after["units"]) < self.least:
            return [], list(groups), after
        pool = before if self.fresh else after
        old = len(pool["units"]) - (0 if self.fresh else new)
        drawn = self._drawn(pool, new if self.batch is None else self.batch, old, key)
        if self.fresh:
            return [*groups, *drawn], [], after
        used = {t.id for g in drawn for t in g.trajectories}
        left = (g.but(trajectories=tuple(t for t in g.trajectories if t.id not in used)) for g in groups)
        return drawn, [g for g in left if g.trajectories], after

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: Any, state: dict[str, Any]) -> dict[str, Any]:
        """Renews the priorities of the units that the update used."""
        sizes = {t.id: float(np.abs(t.advantages).mean()) for g in groups for t in g.trajectories if t.advantages is not None and t.actions}
        priorities = np.array(state["priorities"])
        for i, unit in enumerate(state["units"]):
            if seen := [sizes[name] for name in unit["ids"] if name in sizes]:
                priorities[i] = float(np.mean(seen))
        return {**state, "priorities": priorities}

    def _with(self, state: dict[str, Any], groups: Sequence[Group]) -> dict[str, Any]:
        """Adds the units of these groups to the state. `home` is the number of the unit's original group."""
        whole = self.unit == "group"
        pieces = [(n, part) for n, g in enumerate(groups, state["groups"]) for part in ([g] if whole else _split(g))]
        units = [{"home": n, "ids": [t.id for t in part.trajectories], **kept_group(part)} for n, part in pieces]
        first = float(np.max(state["priorities"], initial=0.0)) or 1.0
        return {
            "units": [*state["units"], *units][-self.size :],
            "priorities": np.concatenate([state["priorities"], np.full(len(units), first)])[-self.size :],
            "groups": state["groups"] + len(groups),
        }

    def _drawn(self, pool: dict[str, Any], count: int, old: int, key: Key) -> list[Group]:
        """Draws units from a pool and returns their groups. The first `old` units of the pool come from earlier steps."""
        if not pool["units"] or not count:
            return []
        found, weights = self.law.draw(count, pool["priorities"], key.fold("replay"))
        groups: dict[int, Group] = {}
        for i in np.unique(found):
            unit, weight = pool["units"][i], float(weights[found == i].sum())
            source = {} if self.source is None or i >= old else {"source": self.source}
            group = group_of(unit)
            trajectories = tuple(t.but(weight=t.weight * weight, **source) for t in group.trajectories)
            home = unit["home"]
            earlier = groups[home].trajectories if home in groups else ()
            groups[home] = group.but(trajectories=(*earlier, *trajectories))
        return list(groups.values())


def _split(group: Group) -> list[Group]:
    return [group.but(trajectories=(t,)) for t in group.trajectories]
