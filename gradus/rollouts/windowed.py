"""Updates use unfinished answers, too. In each step, every slot adds at most one window of tokens to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.asked import single
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name
from gradus.rollouts.in_flight import Flight, advanced, flight_of, kept_flight, launched, limit, named, refuse_environment
from gradus.rollouts.single_turn import one_turn
from gradus.types import Group, Request, Trajectory
from gradus.types.parts import World
from gradus.types.pieces import piece_links
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Windowed:
    """In each step, every slot adds at most `window` tokens to its answer, with the weights of that step. The step returns the answers of all slots.

    The number of slots is the number of answers that the step requests. After a finished answer, a slot begins a new answer in the next step. An unfinished
    answer keeps its slot. Requests without a free slot are not used. An answer is finished if it ended, or if it reached its own token limit.

    The links of a trajectory name the tokens of this step (`types.pieces`), so that `NewTokens` trains each token only once. An unfinished answer is not
    judged: its reward is 0, and its group is auxiliary. Use a credit rule that has a critic with this rollout, because the answers to one problem end in
    different steps.
    Metrics: in_flight (unfinished answers), cut_share (share of answers that are unfinished), decode_steps, idle. At test time the policy answers
    without interruption.
    """

    window: int = 8192  # new tokens per slot and step
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, window="[1, inf)")

    @property
    def test(self) -> Auto:
        return Auto()

    def start(self) -> dict[str, Any]:
        return {"flights": []}

    async def run(self, requests: Sequence[Request], world: World, state: Mapping[str, Any]) -> tuple[list[Group], dict[str, Any]]:
        """Returns the finished answers (judged), then the unfinished answers, and the state with the unfinished answers.

        Raises UserError if the task has an environment.
        """
        refuse_environment(world)
        before = [flight_of(kept, state.get("media", {})) for kept in state["flights"]]
        free = max(0, sum(r.count for r in requests) - len(before))
        before += [launched(request, world) for request in single(requests)[:free]]
        flights = await advanced(before, world, world.call("windowed"), lambda _: self.window)
        made = [piece(new, old, world) for new, old in zip(flights, before, strict=True)]
        left = [bool(f.open(limit(f, world))) for f in flights]
        world.note("in_flight", sum(left))
        if flights:
            world.note("cut_share", sum(left) / len(flights))
        held: dict[str, np.ndarray] = {}
        kept = [kept_flight(f, held) for f, still in zip(flights, left, strict=True) if still]
        done, cut = ([m for m, still in zip(made, left, strict=True) if still is kind] for kind in (False, True))
        groups = [*await world.judge(together(done)), *together(cut, "/cut")]
        return groups, {"flights": kept, **({"media": held} if held else {})}


def piece(flight: Flight, before: Flight, world: World) -> tuple[str, Trajectory]:
    """Returns the name of the group and the trajectory of a flight with one answer. `before`: the flight at the start of the step."""
    request, (answer,), (earlier,) = named(flight, world), flight.answers, before.answers
    still = bool(flight.open(limit(flight, world)))
    made = one_turn(request, 0, answer, world).but(links=piece_links(answer.actions - earlier.actions, still))
    return group_name(request), made.but(reward=0.0) if still else made


def together(made: Sequence[tuple[str, Trajectory]], mark: str = "") -> list[Group]:
    """Puts the trajectories of the same name into one group, in order. `mark` is added to the names of the groups; with a mark, the groups are auxiliary."""
    found: dict[str, list[Trajectory]] = {}
    for name, trajectory in made:
        found.setdefault(name, []).append(trajectory)
    return [Group(name + mark, tuple(row), aside=bool(mark)) for name, row in found.items()]
