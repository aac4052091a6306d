"""A buffer of the best answers to each problem. Some updates use answers from this buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.selection.filters import learned
from gradus.types import Group, Key
from gradus.types.kept import group_of, kept_group
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class BestReplay:
    """Keeps the `size` best different answers to each problem.

    With probability `share`, answers from the buffer replace the new answers to a problem in the update. For each new answer of the group, one answer is
    drawn from the buffer, without replacement. If the buffer has too few, all its answers are used.
    """

    share: float = 0.5
    size: int = 50  # answers per problem

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]", size="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"kept": {}}

    def keep(self, groups: Sequence[Group], key: Key, state: dict[str, Any]) -> tuple[list[Group], list[Group], dict[str, Any]]:
        kept, out, dropped = dict(state["kept"]), [], []
        used = {t.id for group in groups for t in group.trajectories}  # a step contains a trajectory only once, even if its problem occurs twice
        for group in groups:
            problem = group.trajectories[0].problem.id if group.trajectories else ""
            before, draw = kept.get(problem, []), key.fold("replay", group.key)
            free = [unit for unit in before if unit["id"] not in used]
            if free and float(draw.uniform(1)[0]) < self.share:
                count = min(len(group.trajectories), len(free))
                picked = np.sort(np.argsort(draw.fold("answers").uniform(len(free)), kind="stable")[:count])
                used |= {free[i]["id"] for i in picked}
                out.append(group.but(trajectories=tuple(group_of(free[i]["unit"]).trajectories[0] for i in picked)))
                dropped.append(group)
            else:
                out.append(group)
            kept[problem] = self._with(before, group)
        return out, dropped, {"kept": kept}

    def _with(self, before: list[dict[str, Any]], group: Group) -> list[dict[str, Any]]:
        """Adds the answers of a group to the buffer of a problem, and returns the buffer with the best answer first.

        If an answer is already in the buffer, the earlier copy stays.
        """
        known = {unit["text"] for unit in before}
        new = {t.completion: t for t in learned(group) if t.failed is None and t.completion not in known}
        units = [{"id": t.id, "text": text, "reward": t.value, "unit": kept_group(group.but(trajectories=(t,)))} for text, t in new.items()]
        return sorted([*before, *units], key=lambda unit: -unit["reward"])[: self.size]
