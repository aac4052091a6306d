"""Forced exits: an answer is cut at several positions in its thought. At each cut a text that ends the thought is inserted, and final answers are
sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.auto import Auto
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.single_turn import one_turn
from gradus.rollouts.spans import check_text
from gradus.types import Context, Frozen, Group, Key, Request, Trajectory, UserError, prompt_context
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges
from gradus.types.spans import ends


class Places(Protocol):
    """Chooses where a thought is cut."""

    def cuts(self, thought: int, key: Key) -> list[int]:
        """Returns the positions of the cuts in ascending order. A position is the number of tokens of the thought before the cut, at most `thought`."""
        ...


@dataclass(frozen=True)
class RandomCuts:
    """`count` different random positions within the thought. A thought of n tokens has at most n - 1 such positions: the end of the thought is not allowed,
    because there the answer itself ends the thought.
    """

    count: int = 8  # 0: no forced exits

    def __post_init__(self) -> None:
        check_ranges(self, count="[0, inf)")

    def cuts(self, thought: int, key: Key) -> list[int]:
        return sorted((1 + key.permutation(thought - 1)[: self.count]).tolist()) if thought > 1 else []


@dataclass(frozen=True)
class Budgets:
    """The same budgets, in tokens, for every answer. If a thought is shorter than a budget, the whole thought counts at this budget."""

    at: tuple[int, ...] = (2000, 4000, 6000, 8000)

    def __post_init__(self) -> None:
        if not self.at or min(self.at) < 1 or list(self.at) != sorted(set(self.at)):
            raise UserError(f"Budgets.at is {self.at}; give numbers of tokens in ascending order, each 1 or more")

    def cuts(self, thought: int, key: Key | None = None) -> list[int]:
        """Returns the cuts of a thought that has `thought` tokens. Nothing is drawn from the key."""
        return [min(budget, thought) for budget in self.at]


@dataclass(frozen=True)
class ForcedExits:
    """Samples `request.count` answers, cuts each at the positions that `places` chooses in its thought, and samples one final answer at every cut.

    The thought ends where `mark` occurs for the last time, or at the end of the text. At a cut, the inserted `text` ends the thought, and has no loss. For
    every answer, the group of a problem contains the forced answers in the order of their cuts, and then the uncut answer. The loss of
    a forced answer includes all tokens before its cut. The links of a trajectory are `trace` (the number of the answer), `exit` (the index of the cut; for
    the uncut answer, the number of cuts), and `cuts` (the tokens of the thought before each cut). Metrics: thought (tokens), exits (cuts per answer).
    """

    places: Places = RandomCuts()
    text: str = "Time is limited, stop thinking and start answering.\n</think>\n\n"
    mark: str = "</think>"  # the final answer follows this text
    limit: int = 512  # new tokens of a forced answer
    gives: ClassVar[frozenset[str]] = frozenset({"exits"})
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)")
        check_mark(self)

    @property
    def test(self) -> Auto:
        """The rollout of evaluation: plain answers."""
        return Auto()

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text, or if the task has an environment."""
        check_one_turn(self, task)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request."""
        return await cut_answers(requests, self._exits, world)

    async def _exits(self, request: Request, index: int, whole: Context, world: World) -> list[Trajectory]:
        """Returns the forced answers of one answer, and the answer itself."""
        thought, _ = thought_of(whole, self.mark, request, world)
        cuts = self.places.cuts(thought, world.key.fold("exits", request.problem.id, *request.tags, request.sample + index))
        inserted = prompt_context(tokens_of(self.text, world, request.player))
        starts = [whole.first(cut).then(inserted) for cut in cuts]
        drawn = await final_answers(request, index, starts, world, limit=self.limit)
        made = [forced(asked, 0, start, piece, start.then(piece), world) for start, (asked, (piece,)) in zip(starts, drawn, strict=True)]
        return with_exits([[t] for t in made], one_turn(request, index, whole, world), index, cuts, thought, world)


Cutting = Callable[[Request, int, Context, World], Awaitable[list[Trajectory]]]
"""Cuts an answer. Arguments: the request, the number of the answer, the answer. Result: its forced answers, and the answer itself."""


async def cut_answers(requests: Sequence[Request], cut: Cutting, world: World) -> list[Group]:
    """Samples the answers to every request, cuts each, and returns one judged group per request."""
    sampled = await world.sample(requests)
    made = iter(await asyncio.gather(*(cut(r, i, c, world) for r, row in zip(requests, sampled, strict=True) for i, c in enumerate(row))))
    groups = [Group(group_name(r), tuple(t for _ in row for t in next(made))) for r, row in zip(requests, sampled, strict=True)]
    return await world.judge(groups)


async def final_answers(
    request: Request, index: int, starts: Sequence[Context], world: World, *, limit: int, count: int = 1
) -> list[tuple[Request, Sequence[Context]]]:
    """Samples `count` final answers of at most `limit` tokens after each of `starts`. Returns, for each start, the request and its answers."""
    sampling = replace(sampling_of(request, world), max_tokens=limit)
    asked = [
        replace(request, count=count, sampling=sampling, prompt=c, at=None, sample=0, tags=(*request.tags, "exit", request.sample + index, k))
        for k, c in enumerate(starts)
    ]
    drawn = await world.sample(asked) if asked else []
    return list(zip(asked, drawn, strict=True))


def forced(asked: Request, index: int, start: Context, piece: Context, trained: Context, world: World) -> Trajectory:
    """Returns the trajectory of the final answer `piece` after `start`. The completion is the text of both. `trained` is the context of the trajectory."""
    said = np.concatenate([start.tokens, piece.tokens])
    named = trajectory_name(world.step, asked, index)
    return one_turn(asked, index, trained, world).but(id=named, completion=world.text(said, asked.player))


def with_exits(
    made: Sequence[Sequence[Trajectory]], whole: Trajectory, index: int, cuts: Sequence[int], thought: int, world: World
) -> list[Trajectory]:
    """Returns the forced answers `made` at every cut and then the answer itself, all with their links. Notes the metrics."""
    world.note("thought", thought)
    world.note("exits", len(cuts))
    links = {"trace": index, "cuts": tuple(cuts)}
    return [t.but(links=Frozen(**links, exit=k)) for k, row in enumerate([*made, [whole]]) for t in row]


def thought_of(context: Context, mark: str, request: Request, world: World) -> tuple[int, int]:
    """Returns two numbers of tokens: in the thought, and up to the end of the mark. If the text has no mark, both numbers are equal."""
    tokens = context.tokens[context.chosen]
    until = ends(tokens, lambda row: world.text(row, request.player))
    written = world.text(tokens, request.player)
    at = written.rfind(mark)
    if at < 0:
        own = int((until < len(written)).sum()) + 1 if len(written) else 0  # without the end token
        return own, own
    return int((until <= at).sum()), int((until < at + len(mark)).sum()) + 1


def check_mark(part: Any) -> None:
    """Raises UserError if the mark of a part is empty."""
    if not part.mark:
        raise UserError(f"{type(part).__name__}.mark is empty; give the text that ends a thought, such as </think>")


def check_one_turn(part: Any, task: Task) -> None:
    """Raises UserError if the player writes no text, or if the task has an environment."""
    check_text(part, task)
    if task.environment is not None:
        name = type(part).__name__
        raise UserError(f'task "{task.name}" has an environment, but {name} cuts answers of one turn; take a task without an environment')


def tokens_of(text: str, world: World, player: str) -> np.ndarray:
    """Returns the tokens of a text, without the end token of an answer."""
    tokens = world.told(text, player).tokens if text else np.zeros(0, np.int32)
    while len(tokens) and not world.text(tokens[-1:], player):
        tokens = tokens[:-1]
    return tokens
