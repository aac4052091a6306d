"""A tree of episodes at test time. It branches at every turn, merges branches with the same observations, and lets the finished branches vote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.environment_calls import closed
from gradus.rollouts.episodes import Episodes, Played, Seat, refuse_long, sample_turn, trajectory
from gradus.rollouts.ids import group_name
from gradus.types import Context, Ended, Failed, Group, Request, Trajectory, UserError
from gradus.types.answers import answered
from gradus.types.parts import Forkable, Task, Turn, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Twig:
    """A branch of the tree: an episode in progress. `told`: the observations so far."""

    episode: Any
    played: Played
    told: tuple[str, ...] = ()

    @property
    def likely(self) -> float:
        return likely(self.played.contexts)


def likely(contexts: Sequence[Context]) -> float:
    """Returns the mean log-probability of the sampled tokens of the last context; minus infinity without such tokens."""
    rows = contexts[-1].logprobs if contexts else None
    return float(rows.mean()) if rows is not None and len(rows) else float("-inf")


def merged(twigs: Sequence[Twig], most: int) -> list[Twig]:
    """Keeps the most probable branch for each sequence of observations. From these, keeps the `most` branches with the highest probability."""
    best: dict[tuple[str, ...], Twig] = {}
    for twig in twigs:
        if twig.told not in best or twig.likely > best[twig.told].likely:
            best[twig.told] = twig
    return sorted(best.values(), key=lambda twig: -twig.likely)[:most]


def final_answer_vote(leaf: Trajectory) -> object:
    """Returns the final answer of an episode; None if there is none."""
    return answered(leaf.completion)


def elected(leaves: Sequence[Trajectory], vote: Callable[[Trajectory], object]) -> Trajectory:
    """Returns the most probable leaf with the most common vote. The vote None counts only if there is no other vote."""
    votes = [vote(leaf) for leaf in leaves]
    known = [one for one in votes if one is not None] or votes
    counts = [known.count(one) if one in known else 0 for one in votes]
    return max(zip(leaves, counts, strict=True), key=lambda one: (one[1], likely(one[0].contexts)))[0]


@dataclass(frozen=True)
class EpisodeTree:
    """Plays a tree of episodes for each answer. At each turn every live branch is continued `copies` times. Unfinished branches with the same observations
    are merged, and the `live` most probable branches continue. Each finished branch has the vote `vote`. The most common vote wins, with its most probable
    branch.

    The tokens of a branch before a fork are sampled once. The episodes must have a method `fork`.
    """

    copies: int = 3
    live: int = 8
    vote: Callable[[Trajectory], object] = final_answer_vote
    play: Episodes = Episodes()
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, copies="[1, inf)", live="[1, inf)")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's episodes cannot be copied."""
        if not getattr(task.environment, "forks", False):
            raise UserError(f"the search EpisodeTree copies episodes, but episodes of task {task.name} cannot be copied; take another search, such as Vote")

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` answers to each problem. Each answer is the choice of one tree."""
        trees = [asyncio.gather(*(self._tree(Seat(r, i, world, {})) for i in range(r.count))) for r in requests]
        found = await asyncio.gather(*trees)
        return await world.judge([Group(group_name(r), tuple(row)) for r, row in zip(requests, found, strict=True)])

    async def _tree(self, seat: Seat) -> Trajectory:
        environment: Any = seat.world.task.environment
        async with AsyncExitStack() as stack:
            episode = await stack.enter_async_context(self.play.running(environment, seat))
            if isinstance(episode, Failed):
                nothing = Played((Turn(""),))
                return trajectory(seat, replace(nothing, contexts=(self.play.prompt_of(nothing, seat),), ended=Ended.FAILED, failure=episode))
            twigs, leaves = [Twig(episode, Played((episode.first,)))], list[Trajectory]()
            for turn in range(self.play.max_turns):
                fresh = ((twig, i * self.copies + n) for i, twig in enumerate(twigs) for n in range(self.copies))
                grown = await asyncio.gather(*(self._grown(twig, seat, turn, number, stack) for twig, number in fresh))
                leaves += [trajectory(seat, twig.played) for twig, over in grown if over]
                twigs = merged([twig for twig, over in grown if not over], self.live)
            return elected([*leaves, *(trajectory(seat, twig.played) for twig in twigs)], self.vote)

    async def _grown(self, twig: Twig, seat: Seat, turn: int, number: int, stack: AsyncExitStack) -> tuple[Twig, bool]:
        """Continues a copy of a branch by one action. Returns the longer branch, and whether its episode has ended."""
        world, request = seat.world, seat.request
        prompt = self.play.prompt_of(twig.played, seat)
        if len(prompt.sequence) >= world.context_length(request.player):
            refuse_long(prompt, seat, turn)
            return replace(twig, played=replace(twig.played, ended=Ended.CONTEXT)), True
        own = replace(seat, request=replace(request, tags=(*request.tags, "tree", number)))
        sampled = await sample_turn(own, turn, prompt)
        action = world.said(sampled, len(prompt.sequence), request.player)
        assert isinstance(twig.episode, Forkable)
        episode: Any = twig.episode.fork(world.key.fold("tree", request.problem.id, *own.request.tags, request.sample + seat.index, turn))
        stack.push_async_callback(closed, episode, self.play.timeout)
        answer = await self.play.answered(episode, action, own, turn)
        played, over = self.play.after(twig.played, seat, prompt, sampled, action, answer)
        return Twig(episode, played, (*twig.told, str(played.turns[-1].observation))), over
