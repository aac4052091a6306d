"""Plays episodes, and clones of some wrong episodes. A clone starts before the last answer of its episode, and the policy continues after an inserted
text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gradus.rollouts.environment_calls import closed
from gradus.rollouts.episodes import Episodes, Played, Seat, sample_turn, trajectory
from gradus.rollouts.ids import group_name
from gradus.rollouts.spans import streamed
from gradus.types import Context, Ended, Failed, Frozen, Group, Key, Request, Trajectory, UserError, prompt_context
from gradus.types.parts import Task, Turn, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb
from gradus.types.spaces import inserted

STREAM = "mixture"  # float32 [A, 2]: the numbers (a, b) of each action; a pi_old + b is its probability in a batch of episodes and clones
DOUBTS = (
    "Perhaps I have missed something important.", "Perhaps I searched in the wrong place.", "My last step may be wrong.",
    "My last search may have missed the point.", "I should check this again from another side.", "I should search again with other words.",
    "This may rest on a wrong fact.", "This may not answer the question.", "The passages may say something else.",
    "There may be a better source.", "There may be a gap in my reasoning.", "I am not sure of this yet.",
)  # fmt: skip


def shares(pool: Sequence[tuple[int, ...]], said: Sequence[int]) -> list[float]:
    """Returns a share for every inserted token. The share of the first token is 1. For a later token, consider the texts of the pool that begin with all
    earlier tokens and continue after them. The share is the part of these texts that continue with this token.

    >>> shares([(1, 2, 3), (1, 2, 4), (1, 5, 6)], (1, 2, 3))
    [1.0, 0.6666666666666666, 0.5]
    """
    found = [1.0] if said else []
    for i in range(1, len(said)):
        same = [text for text in pool if len(text) > i and text[:i] == tuple(said[:i])]
        found.append(sum(text[i] == said[i] for text in same) / max(1, len(same)))
    return found


def mixture(actions: int, alpha: float, *, first: int = 0, given: Sequence[float] = (), z: float = 1.0, j: int = 0) -> np.ndarray:
    """Returns (a, b) of q = a pi_old + b for every action of an episode, [A, 2].

    `given`: the probabilities mu of the inserted tokens, which begin at action `first`; empty for an original. `z`: the share of wrong originals. `j`: the
    number of tokens before the inserted tokens.

    >>> mixture(3, 0.5, first=1, given=[0.25], z=0.25, j=1).tolist()
    [[2.5, 0.0], [0.5, 0.125], [1.0, 0.0]]
    """
    rows = np.tile([1.0 - alpha, 0.0], (actions, 1))
    if len(given):
        last = first + len(given)
        rows[:first, 0] += alpha / z ** (1 / j) if j else alpha
        rows[first:last, 1] = alpha * np.asarray(given)
        rows[last:] = (1.0, 0.0)
    return rows.astype(np.float32)


@dataclass(frozen=True)
class Clone:
    """A clone that was played: its trajectory, the number of its first inserted action, the inserted tokens, the tokens before these, and all doubts."""

    made: Trajectory
    first: int
    said: tuple[int, ...]
    before: int
    pool: tuple[tuple[int, ...], ...]


class Remembering:
    """An episode that keeps a copy of its state before every step."""

    def __init__(self, episode: Any, key: Key) -> None:
        self.episode, self.key, self.first, self.copies = episode, key, episode.first, list[Any]()

    def step(self, action: Any) -> Any:
        self.copies.append(self.episode.fork(self.key.fold(len(self.copies))))
        return self.episode.step(action)


def before_action(context: Context, count: int) -> Context:
    """Returns the part of a context before its action number `count`. Tokens of the environment directly before this action are included."""
    cut = context.first(count)
    end = int(np.flatnonzero(context.chosen)[count])
    return cut.then(prompt_context(context.tokens[len(cut.tokens) : end]))


@dataclass(frozen=True)
class Doubting:
    """Plays `request.count` episodes of each problem, and clones of some wrong episodes. A clone starts before the last answer, where a doubt is inserted,
    and continues after this doubt.

    An episode is wrong if it ended with a return below 1. The doubts are tokens of the policy: updates train them. The groups contain the episodes and the
    kept clones. The state is the share `keep` of kept clones. Every action has the stream `mixture` (see `MixtureRatio`). An evaluation has no clones. Metrics:
    `cloned` (share of clones in the batch), `rescued` (share of the kept clones that are right), `solved` (share of groups with a right episode).
    """

    prob: float = 0.2  # probability that a wrong episode gets a clone
    keep: float = 0.08  # in the first step: number of kept clones divided by the number of originals
    rate: float = 0.1  # weight of the newest success in `keep`
    doubts: tuple[str, ...] = DOUBTS
    mark: str = "<answer>"  # the clone drops the part of the last action from this text on
    play: Episodes = Episodes(max_turns=5)
    gives: ClassVar[frozenset[str]] = frozenset({"turns", "mixture"})
    plays: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        check_ranges(self, prob="[0, 1]", keep="[0, 1]", rate="[0, 1]")
        if not self.doubts or not all(self.doubts) or self.play.history is not None:
            raise UserError(
                f"Doubting.doubts is {self.doubts!r} and Doubting.play.history is {self.play.history}; `doubts` needs one or more texts, and no empty text; "
                "`play.history` must be None, because a clone continues one context"
            )

    @property
    def test(self) -> Episodes:
        return self.play

    def check_task(self, task: Task) -> None:
        """Raises UserError if the task's episodes cannot be copied."""
        if not getattr(task.environment, "forks", False):
            raise UserError(
                f'Doubting copies episodes, but episodes of task "{task.name}" cannot be copied; set --rollout Episodes, or give the episode a method `fork(key)`'
            )

    def start(self) -> dict[str, float]:
        return {"keep": self.keep}

    async def run(self, requests: Sequence[Request], world: World, state: dict[str, float]) -> tuple[list[Group], dict[str, float]]:
        """Returns one judged group per request, and the state."""
        prompts: dict[bytes, Context] = {}
        seats = [(n, Seat(request, i, world, prompts)) for n, request in enumerate(requests) for i in range(request.count)]
        found = await asyncio.gather(*(self._pair(seat) for _, seat in seats))
        fine = [t for t, _ in found if not isinstance(t.reward, Failed)]
        wrong = sum(t.links["return"] < 1 for t in fine) / max(1, len(fine))
        clones = [(n, c) for (n, _), (_, c) in zip(seats, found, strict=True) if c is not None and not isinstance(c.made.reward, Failed)]
        kept = await self._kept(clones, int(state["keep"] * len(found) + 1e-9), world)
        alpha = len(kept) / max(1, len(kept) + len(found))
        groups = []
        for n, request in enumerate(requests):
            own = [c for at, c in kept if at == n]
            members = (*(t for (at, _), (t, _) in zip(seats, found, strict=True) if at == n), *(c.made for c in own))
            rows = {t.id: [mixture(t.actions, alpha)] for t in members}
            rows |= {c.made.id: [mixture(c.made.actions, alpha, first=c.first, given=shares(c.pool, c.said), z=wrong, j=c.before)] for c in own}
            groups.append(streamed(Group(group_name(request), members), STREAM, rows))
        world.note("cloned", alpha)
        rescued = [float(c.made.links["return"] >= 1) for _, c in kept]
        for value in rescued:
            world.note("rescued", value)
        for group in groups:
            world.note("solved", float(any(t.links["return"] >= 1 for t in group.trajectories)))
        keep = (1 - self.rate) * state["keep"] + self.rate * float(np.mean(rescued)) if rescued else state["keep"]
        return await world.judge(groups), {"keep": keep}

    async def _pair(self, seat: Seat) -> tuple[Trajectory, Clone | None]:
        """Plays an original episode. If this episode is wrong, plays a clone of the episode with the probability `prob`."""
        request = seat.request
        key = seat.world.key.fold("doubt", request.problem.id, *request.tags, request.sample + seat.index)
        environment: Any = seat.world.task.environment
        async with self.play.running(environment, seat) as episode:
            if isinstance(episode, Failed):
                asked = self.play.prompt_of(Played((Turn(""),)), seat)
                return trajectory(seat, Played((Turn(""),), contexts=(asked,), ended=Ended.FAILED, failure=episode)), None
            if float(key.uniform()[()]) >= self.prob:
                return trajectory(seat, await self.play.go_on(Played((episode.first,)), episode, seat)), None
            kept: Any = Remembering(episode, key)
            try:
                played = await self.play.go_on(Played((episode.first,)), kept, seat)
                original = trajectory(seat, played)
                if played.ended is not Ended.ENVIRONMENT or original.links["return"] >= 1:
                    return original, None
                return original, await self._clone(played, kept.copies[-1], seat, key)
            finally:
                for copy in kept.copies:
                    await closed(copy, self.play.timeout)

    async def _clone(self, played: Played, episode: Any, seat: Seat, key: Key) -> Clone | None:
        """Plays the clone from a copy of the episode before its last action. Returns None if the doubt does not fit into the model's context."""
        world, player, context, t = seat.world, seat.request.player, played.contexts[-1], len(played.actions) - 1
        begin = int((context.streams["turn"] < t).sum())
        own = context.tokens[np.flatnonzero(context.chosen)[begin:]]
        thought = world.text(own, player).partition(self.mark)[0] if self.mark in world.text(own, player) else ""
        kept = max(k for k in range(len(own)) if thought.startswith(world.text(own[:k], player)))
        cut = before_action(context, begin + kept)
        pool = tuple(tuple(world.follow(inserted(text), cut, player).tokens.tolist()) for text in self.doubts)
        said = pool[int(len(pool) * float(key.fold("which").uniform()[()]))]
        last = {name: np.repeat(rows[-1:], len(said), 0) for name, rows in context.streams.items()}
        rows = None if context.versions is None else np.full(len(said), context.versions[-1], np.int32)
        doubt = Context(np.array(said, np.int32), np.ones(len(said), bool), np.zeros(len(said), np.float32), rows, streams=Frozen(last))
        prompt = cut.then(doubt)
        if len(prompt.sequence) >= world.context_length(player):
            return None
        where = replace(seat, index=seat.request.count + seat.index)
        sampled = await sample_turn(where, t, prompt)
        action = world.said(sampled, int(context.action_positions[begin]), player)
        answer = await self.play.answered(episode, action, where, t)
        state = replace(played, turns=played.turns[:-1], actions=played.actions[:-1], contexts=played.contexts[:-1], ended=Ended.TRUNCATED)
        state, over = self.play.after(state, where, prompt, sampled, action, answer)
        if not over:
            state = await self.play.go_on(state, episode, where)
        made = trajectory(where, state)
        made = made.but(links=Frozen({**made.links, "origin": trajectory(seat, played).id}))
        asked = context.action_positions[0] if context.actions else 0
        return Clone(made, begin + kept, said, len(cut.sequence) - int(asked), pool)

    async def _kept(self, clones: list[tuple[int, Clone]], count: int, world: World) -> list[tuple[int, Clone]]:
        """Returns the `count` clones whose inserted tokens have the highest mean log-probability, with these log-probabilities, in order."""
        if not clones or not count:
            return []
        scored, player = [], clones[0][1].made.player
        for (n, clone), row in zip(clones, await world.score([c.made.contexts[-1] for _, c in clones], LogProb(), player), strict=True):
            own, context = slice(clone.first, clone.first + len(clone.said)), clone.made.contexts[-1]
            logprobs = None if context.logprobs is None else np.array(context.logprobs)
            if logprobs is not None:
                logprobs[own] = row[own]
            made = clone.made.but(contexts=(*clone.made.contexts[:-1], replace(context, logprobs=logprobs)))
            scored.append((float(np.mean(row[own])), n, replace(clone, made=made)))
        best = sorted(range(len(scored)), key=lambda i: -scored[i][0])[:count]
        return [scored[i][1:] for i in sorted(best)]
