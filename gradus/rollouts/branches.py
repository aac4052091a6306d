"""Episodes that branch if the player becomes uncertain. After a turn of the environment, copies of an episode continue from the episode's state."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from gradus.rollouts.environment_calls import closed
from gradus.rollouts.episodes import Episodes, Played, Seat, refuse_long, sample_turn, trailing, trajectory
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.types import Context, Ended, Failed, Frozen, Group, Request, Trajectory, UserError
from gradus.types.parts import Forkable, Task, Turn, World
from gradus.types.ranges import check_ranges
from gradus.types.readers import EntropyShare

STREAM = "branch"  # int32 [A], for each action: the number, within the group, of the trajectory that drew the action


def chance(rise: float, *, base: float, weight: float) -> float:
    """Returns the probability of branching: base + weight * rise, cut to [0, 1]. `rise`: the increase of the entropy.

    >>> [round(chance(rise, base=0.5, weight=0.2), 6) for rise in (0.5, 0.0, -1.0)]
    [0.6, 0.5, 0.3]
    """
    return min(1.0, max(0.0, base + weight * rise))


@dataclass(frozen=True)
class Branch:
    """An episode in progress, which belongs to a group."""

    seat: Seat
    episode: Any
    played: Played
    start: float | None = None  # entropy of the first segment of the episode (for a copy: of its root); None: not read yet
    parent: str = ""  # the trajectory that was copied; empty for a root
    shared: int = 0  # turns that the copy shares with its parent
    streak: int = 0  # number of branchings at successive segments, up to and including the last segment


@dataclass(frozen=True)
class Spoken:
    """A branch with its next segment: the prompt, the sample, and the entropy of the segment's first tokens (None: not read yet)."""

    branch: Branch
    prompt: Context
    sampled: Context
    entropy: float | None = None


@dataclass(frozen=True)
class Branches:
    """Plays M = `request.count` episodes of each problem. Some episodes start from the problem. The other episodes are copies of unfinished episodes:
    an episode is copied more often if its entropy rises more.

    A segment is one answer of the player. The entropy H of a segment is the sum or mean (`total`) of the entropies of its first `tokens` tokens, each divided
    by log(size of the vocabulary). After each answer of the environment to the player, the episode samples a segment. The episode then becomes `copies`
    episodes with the probability `chance(rise)`, where `rise` is H of this segment minus H of the episode's first segment. The new episodes continue from the
    context before this segment and from a copy of the state, and draw this segment again. The new episodes can branch again at their later segments. If all
    episodes of a problem have ended and their number is below M, the missing episodes start from the problem.

    A copy's context contains the shared tokens as its own actions. The stream `branch` is the number of the trajectory that drew an action. Two trajectories of
    a group share an action if, and only if, `branch` is equal at the same index. The links of a copy are the `parent` and the number of `shared` turns. All
    episodes advance one turn at a time. Metrics: `branched` (share of copies), `saved_turns` (share of the group's turns that are shared; the environment did
    not play these turns), `in_a_row` (among the copies, the share whose path also branched at the segment before).
    """

    share: float = 0.5  # share of M that starts from the problem, at least one episode; 1: independent episodes
    base: float = 0.5  # probability to branch if the entropy is unchanged
    weight: float = 0.2  # weight of the rise of the entropy
    copies: int = 2  # largest number of episodes that one episode becomes, itself included
    tokens: int = 20  # tokens of a segment whose entropy is read
    total: Literal["sum", "mean"] = "sum"  # sum or mean over these tokens; in small vocabularies the sum brings the probability to 0 or 1
    play: Episodes = Episodes()
    gives: ClassVar[frozenset[str]] = frozenset({"turns", "branches"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, share="(0, 1]", base="[0, 1]", weight="[0, inf)", copies="[2, inf)", tokens="[1, inf)")

    @property
    def test(self) -> Episodes:
        """The rollout of evaluation: independent episodes."""
        return self.play

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's episodes cannot be copied, or if the environment limits the number of episodes at a time."""
        if not getattr(task.environment, "forks", False):
            raise UserError(
                f'the rollout Branches copies episodes, but episodes of task "{task.name}" cannot be copied; set --rollout Episodes, or '
                "write a method `fork(key)` in the episode and set `forks = True` in the environment"
            )
        if (most := getattr(task.environment, "together", None)) is not None:
            raise UserError(
                f'the rollout Branches keeps all episodes of a problem open, but task "{task.name}" runs at most {most} episodes at a time; set --rollout '
                "Episodes"
            )

    def roots(self, count: int) -> int:
        """Returns the number of episodes, among `count`, that start from the problem at first.

        >>> [Branches().roots(count) for count in (16, 5, 1)]
        [8, 2, 1]
        """
        return max(1, min(count, int(self.share * count + 1e-9)))

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group of `request.count` trajectories per request."""
        prompts: dict[bytes, Context] = {}
        done: list[dict[int, Trajectory]] = [{} for _ in requests]
        made = [self.roots(request.count) for request in requests]
        async with AsyncExitStack() as stack:
            live = await self._started([(i, Seat(r, n, world, prompts)) for i, r in enumerate(requests) for n in range(made[i])], done, stack)
            while True:
                live = await self._round(live, made, done, stack) if live else []
                missing = [i for i in range(len(requests)) if made[i] < requests[i].count and not any(at == i for at, _ in live)]
                if not live and not missing:
                    break
                fresh = [(i, Seat(requests[i], n, world, prompts)) for i in missing for n in range(made[i], requests[i].count)]
                for i in missing:
                    made[i] = requests[i].count
                live += await self._started(fresh, done, stack)
        for rows in done:
            self._tell(rows, world)
        return await world.judge([Group(group_name(r), tuple(rows[n] for n in range(r.count))) for r, rows in zip(requests, done, strict=True)])

    def chance(self, rise: float, streak: int) -> float:
        """Returns the probability to branch. `streak`: the number of branchings in a row on the same path, just before."""
        return chance(rise, base=self.base, weight=self.weight)

    async def _started(self, seats: Any, done: list[dict[int, Trajectory]], stack: AsyncExitStack) -> list[tuple[int, Branch]]:
        """Starts episodes. Returns the episodes that started, each with the index of its request. Episodes that did not start are recorded in `done`
        as failed."""
        environment: Any = seats[0][1].world.task.environment if seats else None
        runs = [self.play.running(environment, seat) for _, seat in seats]
        live = []
        for (i, seat), run in zip(seats, runs, strict=True):
            episode = await stack.enter_async_context(run)
            if isinstance(episode, Failed):
                nothing = Played((Turn(""),))
                lost = replace(nothing, contexts=(self.play.prompt_of(nothing, seat),), ended=Ended.FAILED, failure=episode)
                done[i][seat.index] = told(Branch(seat, None, lost))
            else:
                live.append((i, Branch(seat, episode, Played((episode.first,)))))
        return live

    async def _round(
        self, live: list[tuple[int, Branch]], made: list[int], done: list[dict[int, Trajectory]], stack: AsyncExitStack
    ) -> list[tuple[int, Branch]]:
        """Plays one more turn of each branch. Returns the branches that have not ended, including the new copies."""
        ready = []
        for i, branch in live:
            prompt = self.play.prompt_of(branch.played, branch.seat)
            if len(prompt.sequence) >= branch.seat.world.context_length(branch.seat.request.player):
                refuse_long(prompt, branch.seat, len(branch.played.actions))
                done[i][branch.seat.index] = told(replace(branch, played=replace(branch.played, ended=Ended.CONTEXT)))
            else:
                ready.append((i, branch, prompt))
        drawn = await self._entropies(await sampled(ready), made)
        new, old = [], []
        for i, one in drawn:
            copies = self._copies(one, made[i])
            for copy in copies:
                made[i] += 1
                stack.push_async_callback(closed, copy.episode, self.play.timeout)
                new.append((i, copy, one.prompt))
            old.append((i, replace(one, branch=replace(one.branch, streak=one.branch.streak + 1 if copies else 0))))
        every = [*old, *await sampled(new)]
        after = await asyncio.gather(*(self._stepped(one) for _, one in every))
        going = []
        for (i, _), (branch, over) in zip(every, after, strict=True):
            if over:
                done[i][branch.seat.index] = told(branch)
            else:
                going.append((i, branch))
        return going

    async def _entropies(self, drawn: list[tuple[int, Spoken]], made: list[int]) -> list[tuple[int, Spoken]]:
        """Adds the entropies of the segments, and sets `start` in every branch whose segment is its first segment. Complete groups are left out."""
        due = [n for n, (i, one) in enumerate(drawn) if made[i] < one.branch.seat.request.count]
        if not due:
            return drawn
        seat = drawn[due[0]][1].branch.seat
        rows = await seat.world.score([drawn[n][1].sampled for n in due], EntropyShare(), seat.request.player)
        out = list(drawn)
        for n, row in zip(due, rows, strict=True):
            i, one = drawn[n]
            own = int((one.sampled.action_positions >= len(one.prompt.sequence)).sum())
            entropy = level(row[len(row) - own :], self.tokens, self.total)
            branch = one.branch if one.branch.played.actions else replace(one.branch, start=entropy)
            out[n] = (i, replace(one, branch=branch, entropy=entropy))
        return out

    def _copies(self, one: Spoken, made: int) -> list[Branch]:
        """Returns the copies of a branch at its new segment. `made`: the number of episodes that the group has already."""
        branch, seat = one.branch, one.branch.seat
        turn, room = len(branch.played.actions), seat.request.count - made
        if turn == 0 or room <= 0 or one.entropy is None or branch.start is None:
            return []
        if not isinstance(branch.episode, Forkable):
            raise UserError(f"an episode of problem {seat.request.problem.id} has no method `fork(key)`, but its environment has `forks = True`; write this method")
        key = seat.world.key.fold("branch", seat.request.problem.id, *seat.request.tags, seat.request.sample + seat.index, turn)
        if float(key.uniform()[()]) >= self.chance(one.entropy - branch.start, branch.streak):
            return []
        seat.world.note("in_a_row", float(branch.streak > 0))
        name = trajectory_name(seat.world.step, seat.request, seat.index)
        seats = [replace(seat, index=made + n) for n in range(min(self.copies - 1, room))]
        return [replace(branch, seat=s, episode=branch.episode.fork(key.fold(s.index)), parent=name, shared=turn, streak=branch.streak + 1) for s in seats]

    async def _stepped(self, one: Spoken) -> tuple[Branch, bool]:
        """Returns the branch after its segment and the environment's answer to this segment. Also returns whether the branch has ended."""
        branch, seat = one.branch, one.branch.seat
        action = seat.world.said(one.sampled, len(one.prompt.sequence), seat.request.player)
        answer = await self.play.answered(branch.episode, action, seat, len(branch.played.actions))
        rows = np.full(one.sampled.actions, seat.index, np.int32)
        marked = replace(one.sampled, streams=Frozen({**one.sampled.streams, STREAM: rows}))
        played, over = self.play.after(branch.played, seat, one.prompt, marked, action, answer)
        if not over and len(played.actions) == self.play.max_turns:
            played, over = trailing(played, seat), True
        return replace(branch, played=played), over

    def _tell(self, rows: dict[int, Trajectory], world: World) -> None:
        world.note("branched", sum("parent" in t.links for t in rows.values()) / len(rows))
        world.note("saved_turns", sum(t.links.get("shared", 0) for t in rows.values()) / max(1, sum(t.links["turns"] for t in rows.values())))


async def sampled(ready: Sequence[tuple[int, Branch, Context]]) -> list[tuple[int, Spoken]]:
    """Samples the next segment of every branch."""
    found = await asyncio.gather(*(sample_turn(b.seat, len(b.played.actions), prompt) for _, b, prompt in ready))
    return [(i, Spoken(branch, prompt, one)) for (i, branch, prompt), one in zip(ready, found, strict=True)]


def level(row: np.ndarray, tokens: int, total: Literal["sum", "mean"]) -> float:
    """Returns the sum or mean of the first `tokens` entropies of a segment; 0 for a segment without tokens."""
    first = np.asarray(row[:tokens], np.float64)
    return float(first.sum() if total == "sum" else first.mean()) if len(first) else 0.0


def told(branch: Branch) -> Trajectory:
    """Returns the trajectory of a branch that has ended. The `links` of a copy also have `parent` and `shared` (turns)."""
    made = trajectory(branch.seat, branch.played)
    return made.but(links=Frozen({**made.links, "parent": branch.parent, "shared": branch.shared})) if branch.parent else made
