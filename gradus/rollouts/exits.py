"""Forced exits: an answer is cut at several places in its thought. At each cut a text that ends the thought is inserted, and final answers are
sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol

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
        """Returns numbers of tokens of the thought, in ascending order, each at most `thought`."""
        ...


@dataclass(frozen=True)
class RandomCuts:
    """`count` different random places within the thought. A thought of n tokens has at most n - 1 places, because its end is the exit of the answer itself."""

    count: int = 8  # 0: no forced exits

    def __post_init__(self) -> None:
        check_ranges(self, count="[0, inf)")

    def cuts(self, thought: int, key: Key) -> list[int]:
        return sorted((1 + key.permutation(thought - 1)[: self.count]).tolist()) if thought > 1 else []


@dataclass(frozen=True)
class Budgets:
    """The same numbers of tokens for every answer. If a thought is shorter than a budget, it is not cut at this budget, but counts as a whole."""

    at: tuple[int, ...] = (2000, 4000, 6000, 8000)

    def __post_init__(self) -> None:
        if not self.at or min(self.at) < 1 or list(self.at) != sorted(set(self.at)):
            raise UserError(f"Budgets.at is {self.at}; give numbers of tokens in ascending order, each 1 or more")

    def cuts(self, thought: int, key: Key) -> list[int]:
        return [min(budget, thought) for budget in self.at]


@dataclass(frozen=True)
class ForcedExits:
    """Samples `request.count` answers, cuts each at `places` in its thought, and samples `answers` final answers at every cut.

    The thought ends where `mark` occurs for the last time, or at the end of the text. At a cut, the inserted `text` ends the thought, and has no loss. If the
    thought ended by itself at a cut, the mark that the player wrote stays, and nothing is inserted. The group of a problem has, for every answer, the forced
    answers in the order of their cuts, and then the answer itself. The links of a trajectory are `trace` (the number of the answer), `exit` (the number of the
    cut; the answer itself has the number of its cuts), and `cuts` (the tokens of the thought before each cut).

    `trace="member"`: the answer keeps its own final answer, and a forced answer trains all tokens before its cut, too. `trace="apart"`: the answer ends with its
    mark or its last cut, and trains the tokens of the thought once; a forced answer trains only its own tokens. Metrics: thought (tokens), exits (cuts
    per answer).
    """

    places: Places = RandomCuts()
    text: str = "Time is limited, stop thinking and start answering.\n</think>\n\n"
    mark: str = "</think>"  # the text after which an answer writes its final answer
    answers: int = 1  # final answers per cut
    limit: int = 512  # new tokens of a forced answer
    trace: Literal["member", "apart"] = "member"
    gives: ClassVar[frozenset[str]] = frozenset({"exits"})
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, answers="[1, inf)", limit="[1, inf)")
        if not self.mark:
            raise UserError("ForcedExits.mark is empty; give the text that ends a thought, such as </think>")

    @property
    def test(self) -> Auto:
        """The rollout of evaluation: plain answers."""
        return Auto()

    def check_task(self, task: Task) -> None:
        """Raises UserError if the player writes no text, or if the task has an environment."""
        check_text(self, task)
        if task.environment is not None:
            raise UserError(f'task "{task.name}" has an environment, but ForcedExits cuts answers of one turn; take a task without an environment')

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request."""
        sampled = await world.sample(requests)
        jobs = [self._exits(r, i, c, world) for r, row in zip(requests, sampled, strict=True) for i, c in enumerate(row)]
        made = iter(await asyncio.gather(*jobs))
        groups = [Group(group_name(r), tuple(t for _ in row for t in next(made))) for r, row in zip(requests, sampled, strict=True)]
        return await world.judge(groups)

    async def _exits(self, request: Request, index: int, whole: Context, world: World) -> list[Trajectory]:
        """Returns the forced answers of one answer, and the answer itself."""
        thought, marked = self.thought(whole, request, world)
        key = world.key.fold("exits", request.problem.id, *request.tags, request.sample + index)
        cuts = self.places.cuts(thought, key)
        ended = [self.trace == "apart" and cut == thought < marked for cut in cuts]  # the player itself ended the thought
        inserted = tokens_of(self.text, world, request.player)
        starts = [
            whole.first(marked) if own else whole.first(cut).then(prompt_context(inserted)) for cut, own in zip(cuts, ended, strict=True)
        ]
        limit = replace(sampling_of(request, world), max_tokens=self.limit)
        asked = [
            replace(request, count=self.answers, sampling=limit, prompt=c, at=None, sample=0, tags=(*request.tags, "exit", request.sample + index, k))
            for k, c in enumerate(starts)
        ]
        drawn = await world.sample(asked) if asked else []
        world.note("thought", thought)
        world.note("exits", len(cuts))
        links = {"trace": index, "cuts": tuple(cuts)}
        made = [
            self._forced(asked[k], n, starts[k], piece, world).but(links=Frozen(**links, exit=k)) for k, row in enumerate(drawn) for n, piece in enumerate(row)
        ]
        trace = whole if self.trace == "member" else whole.first(min(marked if ended[-1:] == [True] else cuts[-1] if cuts else marked, whole.actions))
        return [*made, one_turn(request, index, trace, world).but(links=Frozen(**links, exit=len(cuts)))]

    def _forced(self, asked: Request, index: int, start: Context, piece: Context, world: World) -> Trajectory:
        context = piece if self.trace == "apart" else start.then(piece)
        said = np.concatenate([start.tokens, piece.tokens])
        return one_turn(asked, index, context, world).but(
            id=trajectory_name(world.step, asked, index), completion=world.text(said, asked.player)
        )

    def thought(self, context: Context, request: Request, world: World) -> tuple[int, int]:
        """Returns two numbers: the tokens of the thought, and the tokens up to the end of the mark. Both numbers are equal if the text has no mark."""
        tokens = context.tokens[context.chosen]
        until = ends(tokens, lambda row: world.text(row, request.player))
        written = world.text(tokens, request.player)
        at = written.rfind(self.mark)
        if at < 0:
            own = int((until < len(written)).sum()) + 1 if len(written) else 0  # without the end token
            return own, own
        return int((until <= at).sum()), int((until < at + len(self.mark)).sum()) + 1


def tokens_of(text: str, world: World, player: str) -> np.ndarray:
    """Returns the tokens of a text, without the end token of an answer."""
    tokens = world.told(text, player).tokens if text else np.zeros(0, np.int32)
    while len(tokens) and not world.text(tokens[-1:], player):
        tokens = tokens[:-1]
    return tokens
