"""Sub-agents: an episode gives a sub-task (an errand) to a player with a separate context, and gets back only the result (the finding)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from gradus.rollouts.turns import plain
from gradus.types import Ended, Frozen, Group, Request, Trajectory
from gradus.types.parts import Errand, Turn
from gradus.types.ranges import check_ranges
from gradus.types.spaces import Observation


@dataclass(frozen=True)
class SubAgents:
    """The settings of an episode's errands (`Turn.errand`): their players, their turns, and whether updates use the contexts of these errands.

    For each problem, the trajectories of one role in all episodes form one auxiliary group. The auxiliary group is judged and stored with the step, but it
    does not count in the step's reward, accuracy and evaluation. The links of such a trajectory are the `parent` trajectory, the `role`, and the `turn` in
    which the parent sent the sub-agent. If updates do not use the contexts, their tokens are counted as "probe".
    """

    players: Frozen[str] = Frozen()  # role -> player; a role without an entry is played by the player that sent it
    trained: bool = False  # whether training uses the sub-agents' contexts
    max_turns: int = 10  # largest number of turns of a sub-agent; if the errand has not ended by then, the finding is its `otherwise`
    names_players: ClassVar[tuple[str, ...]] = ("players",)

    def __post_init__(self) -> None:
        check_ranges(self, max_turns="[1, inf)")


def sent(errand: Errand, request: Request, index: int, turn: int, how: SubAgents) -> Request:
    """Returns the sub-agent's request: the errand's prompt for the sender's problem, with its own random draws."""
    return replace(
        request,
        count=1,
        player=how.players.get(errand.role, request.player),
        prompt=({"role": "user", "content": errand.prompt},),
        at=None,
        tags=(*request.tags, "errand", errand.role, turn),
        sample=request.sample + index,
        trained=request.trained and how.trained,
    )


def handed(errand: Errand, trajectory: Trajectory, parent: str, turn: int, group: str) -> Group:
    """Returns the sub-agent's trajectory as an auxiliary group. Groups of one role and problem have the same key, so the step joins these groups."""
    links = Frozen({**trajectory.links, "episode": parent, "parent": parent, "role": errand.role, "turn": turn})
    return Group(f"{group}/errand/{errand.role}", (trajectory.but(links=links),))


def returned(turn: Turn, found: Observation) -> Turn:
    """Returns the turn with the finding as its observation. The finding becomes a part of the state before the next action."""
    return replace(turn, observation=found, state=None if turn.state is None else f"{turn.state}\n{plain(found)}")


def finding(errand: Errand, last: Observation, ended: Ended) -> Observation:
    """Returns the finding: the last observation of the errand's episode, or the errand's `otherwise` if the environment did not end the episode."""
    return last if ended is Ended.ENVIRONMENT else errand.otherwise
