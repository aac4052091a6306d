"""Links for an answer that grows over several steps. A piece is the tokens that one step adds, and the step trains on its piece. A rollout marks the pieces
by the links of the trajectory."""

from __future__ import annotations

from gradus.types.frozen import Frozen
from gradus.types.records import Trajectory

CONTINUES = "continues"
"""The name of the link that shows whether a later step continues the answer."""
NEW = "new"
"""The name of the link with the number of actions of this step. These actions are the last actions of the answer."""


def piece_links(new: int, continues: bool) -> Frozen:
    """Returns the links of a piece."""
    return Frozen({NEW: new, CONTINUES: continues})


def continues(trajectory: Trajectory) -> bool:
    """Whether a later step continues the answer. False for a trajectory without the link `CONTINUES`."""
    return bool(trajectory.links.get(CONTINUES, False))


def new_actions(trajectory: Trajectory) -> int:
    """Returns the number of actions of this step. Without the link NEW, all actions belong to this step."""
    return int(trajectory.links.get(NEW, trajectory.actions))
