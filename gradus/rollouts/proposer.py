"""A rollout in which one player writes problems and the same or another player answers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.ids import group_name
from gradus.rollouts.single_turn import one_turn
from gradus.types import Frozen, Group, Problem, Request, Trajectory, UserError
from gradus.types.parts import Rollout, Task, World
from gradus.types.ranges import check_ranges

Role = Literal["proposer", "solver"]


class ProposalValue(Protocol):
    def value(self, accuracy: float) -> float:
        """Returns the reward of a text. `accuracy`: the share of right answers to the problem that the text proposes."""
        ...


@dataclass(frozen=True)
class HardButSolved:
    """The value is 1 - p if the share p of right answers is above 0, else 0. So hard problems get a high value, but problems without a right answer get 0."""

    def value(self, accuracy: float) -> float:
        return 1.0 - accuracy if accuracy > 0 else 0.0


@dataclass(frozen=True)
class Proposer:
    """Lets `player` write `proposals` texts for each requested problem. The task reads a problem out of each text, and `solver` answers this problem.

    The texts to one requested problem are a group. `value` computes the reward of a text from the share of right answers to the proposed problem. The reward is
    0 if the task reads no problem out of the text. The reward is stored as the component "proposal". The answers to one proposed problem are an auxiliary
    group, which the recipe's reward judges. It has as many answers as the request has samples. If a role is not in `trains`, no update uses its texts. At
    test time `rollout` answers the requested problem itself. Metrics: `proposals/valid`, `proposals/solved` (share of right answers to valid problems).
    """

    rollout: Rollout = Auto()  # answers the proposed problems
    proposals: int = 4  # texts per requested problem
    player: str = "policy"  # the player that writes
    solver: str = "policy"  # the player that answers
    value: ProposalValue = HardButSolved()
    weight: float = 0.5  # weight of the loss of the texts
    trains: tuple[Role, ...] = ("proposer", "solver")
    names_players: ClassVar[tuple[str, ...]] = ("player", "solver")

    def __post_init__(self) -> None:
        check_ranges(self, proposals="[1, inf)", weight="[0, inf)")
        if wrong := [role for role in self.trains if role not in ("proposer", "solver")]:
            raise UserError(f'Proposer.trains has "{wrong[0]}"; give "proposer", "solver", or both')

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task cannot read problems out of texts."""
        reader_of(task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one group of texts per request. The answers become auxiliary groups."""
        texts = await proposed(requests, self.proposals, self.player, world, trained="proposer" in self.trains)
        found = [[read(t, world) for t in group.trajectories] for group in texts]
        asked = [
            replace(r, problem=p, player=self.solver, prompt=None, tags=(*r.tags, "proposed", i), trained=r.trained and "solver" in self.trains)
            for r, row in zip(requests, found, strict=True)
            for i, p in enumerate(row)
            if p is not None
        ]
        answers = one_each(await rolled(self.rollout, asked, world), asked, self) if asked else []
        world.also(answers)
        left = iter(answers)
        rates = [[None if p is None else next(left).accuracy or 0.0 for p in row] for row in found]
        for rate in (rate for row in rates for rate in row):
            world.note("proposals/valid", float(rate is not None))
            if rate is not None:
                world.note("proposals/solved", rate)
        return [self._judged(group, row) for group, row in zip(texts, rates, strict=True)]

    def _judged(self, group: Group, rates: Sequence[float | None]) -> Group:
        """Returns the texts with their rewards."""
        values = [0.0 if rate is None else self.value.value(rate) for rate in rates]
        judged = tuple(
            t.but(reward=v, components=Frozen(proposal=v), weight=self.weight) for t, v in zip(group.trajectories, values, strict=True)
        )
        return group.but(trajectories=judged, pool=tuple(values))


async def proposed(requests: Sequence[Request], count: int, player: str, world: World, *, trained: bool) -> list[Group]:
    """Returns one group of `count` written texts per request, without rewards. The tags of these texts differ from the tags of answers to the same problem."""
    asked = [replace(r, count=count, player=player, tags=(*r.tags, "propose"), trained=r.trained and trained) for r in requests]
    samples = await world.sample(asked)
    return [
        Group(group_name(r), tuple(one_turn(r, i, c, world) for i, c in enumerate(contexts))) for r, contexts in zip(asked, samples, strict=True)
    ]


def read(text: Trajectory, world: World) -> Problem | None:
    """Returns the problem that a written text proposes; None if there is none. Raises UserError if the task cannot read problems out of texts."""
    return reader_of(world.task)(text.problem, text.completion)


def reader_of(task: Task) -> Callable[[Problem, str], Problem | None]:
    """Returns the task's function that reads a problem out of a text. Raises UserError if the task has no such function."""
    if task.proposed is None:
        raise UserError(f"task {task.name} cannot read a problem out of a written text; use a task with `proposed`, such as masked_text")
    return task.proposed
