"""A pool of earlier successes. If all new episodes of a problem fail, a success from the pool replaces one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.selection.filters import learned
from gradus.types import Group, Key, Trajectory
from gradus.types.kept import group_of, kept_group
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class SuccessPool:
    """Keeps the newest `size` successes of each problem. If no new trajectory of a problem is right, a success from the pool replaces one of them.

    Keys draw the success and the trajectory to replace. The success keeps its reward and the log-probabilities at its sampling, and gets the source "replay".
    So terms of the objective with this source learn from the success. The size of the group does not change.
    Reference: Li et al., Efficient Multi-turn RL for GUI Agents via Decoupled Training and Adaptive Data Curation, arXiv:2509.23866.
    """

    size: int = 4  # successes per problem
    asks_right: ClassVar[str] = "Everything"  # the part to use instead if no trajectory is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, size="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"kept": {}}

    def keep(self, groups: Sequence[Group], key: Key, state: dict[str, Any]) -> tuple[list[Group], list[Group], dict[str, Any]]:
        """Returns three values: the groups (some with a success from the pool), an empty list of dropped groups, and the pool with the new successes."""
        kept, out = dict(state["kept"]), []
        used = {t.id for group in groups for t in group.trajectories}  # a step contains a trajectory only once, even if its problem occurs twice
        for group in groups:
            trajectories = learned(group)
            problem = trajectories[0].problem.id if trajectories else ""
            right = [t for t in trajectories if t.right]
            free = [unit for unit in kept.get(problem, []) if unit["id"] not in used]
            if trajectories and not right and free:
                unit = key.fold("pool", group.key).choice(free)
                used.add(unit["id"])
                group = _with(group, key.fold("replaced", group.key).choice(trajectories), group_of(unit["unit"]).trajectories[0])
            out.append(group)
            units = [{"id": t.id, "unit": kept_group(group.but(trajectories=(t,)))} for t in right]
            if units:
                kept[problem] = [*kept.get(problem, []), *units][-self.size :]
        return out, [], {"kept": kept}


def _with(group: Group, replaced: Trajectory, success: Trajectory) -> Group:
    """Replaces a trajectory of the group by a success."""
    made = success.but(source="replay", advantages=None, returns=None, weights=None)
    return group.but(trajectories=tuple(made if t is replaced else t for t in group.trajectories))
