"""Episodes of many turns: the player and an environment act alternately until one of them ends the episode. Contexts grow by appended tokens."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.asked import sampling_of
from gradus.rollouts.environment_calls import closed, gate, started, stepped
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.sub_agents import finding, handed, returned, sent
from gradus.rollouts.turns import acted, begun, instruction, opening, recalled
from gradus.runtime.activity import ENVIRONMENT, doing
from gradus.types import Context, Ended, Failed, FailureKind, Frozen, Group, Request, Trajectory, UserError, prompt_context
from gradus.types.parts import Environment, Episode, Turn, World
from gradus.types.ranges import check_ranges
from gradus.types.spaces import Action, Space, in_words


@dataclass(frozen=True)
class Seat:
    """One episode of a rollout: sample number `index` of a request in a `World`."""

    request: Request
    index: int
    world: World
    prompts: dict[bytes, Context]  # one context per distinct prompt of a run; all episodes with this prompt share this context as their parent
    through: AbstractAsyncContextManager[Any] = nullcontext()  # limits how many episodes run at a time
    sent: bool = False  # whether a sub-agent plays the episode

    @property
    def acts(self) -> Space:
        """The space of the player's actions."""
        return self.world.task.acting


@dataclass(frozen=True)
class Played:
    """An episode so far.

    `turns`: the turns of the environment; there is one turn more than there are actions. `actions`: the player's actions, as the environment got them.
    `contexts`: the contexts of the player. `ended`: how the episode ended. `failure`: the failure of the episode, if it failed.
    """

    turns: tuple[Turn, ...] = ()
    actions: tuple[Action, ...] = ()
    contexts: tuple[Context, ...] = ()
    ended: Ended = Ended.TRUNCATED
    failure: Failed | None = None


@dataclass(frozen=True)
class Episodes:
    """Plays `request.count` episodes of each problem in the task's environment. All episodes run at the same time, so their actions are sampled in batches.

    Every action token has three streams: `turn` (int32) is the index of its turn, and `valid` (bool) tells whether its action was legal. `state` (int64) is a
    hash of the state in which the player chose the token. The reward of a turn is at its last action token, as the component "environment".

    An environment can give an errand to a sub-agent (`Turn.errand`). For each problem, the trajectories of one role in all episodes form one auxiliary group.
    The auxiliary group is judged and stored with the step, but it does not count in the step's reward, accuracy and evaluation. The links of such a trajectory are
    the `parent` trajectory, the `role`, and the `turn` in which the parent sent the sub-agent. The parent plays a role without an entry in `roles`. If nothing
    learns from a role, its tokens count as "probe".
    """

    max_turns: int = 20  # an episode is truncated after this number of turns; 1 or more
    history: int | None = None  # None: one context grows over the whole episode; k: every turn has its own context, which shows the last k turns
    timeout: float = 300.0  # seconds that the environment may take per turn, and to start; if it takes longer, the episode fails
    roles: Frozen[str] = Frozen()  # role of a sub-agent (with `Seats`: name of a seat) -> player, which learns from it; nothing learns from another sub-agent
    errand_turns: int = 10  # largest number of turns of a sub-agent; if the errand has not ended by then, the finding is its `otherwise`
    gives: ClassVar[frozenset[str]] = frozenset({"turns"})
    plays: ClassVar[str] = "episodes"
    names_players: ClassVar[tuple[str, ...]] = ("roles",)

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise UserError(f"episodes: `max_turns` is {self.max_turns}; it must be 1 or more")
        if self.history is not None and self.history < 0:
            raise UserError(f"episodes: `history` is {self.history}; it must be 0 or more turns, or None for one growing context")
        check_ranges(self, timeout="(0, inf)", errand_turns="[1, inf)")

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order. Raises UserError if the task has no environment."""
        environment = world.task.environment
        if environment is None:
            raise UserError(
                f'task "{world.task.name}" has no environment, but episodes need an environment; take a task of many turns, such as frozen_lake'
            )
        prompts: dict[bytes, Context] = {}
        through = gate(environment)
        seats = [Seat(request, i, world, prompts, through) for request in requests for i in range(request.count)]
        trajectories = iter(await asyncio.gather(*(self._episode(environment, seat) for seat in seats)))
        groups = [Group(group_name(request), tuple(next(trajectories) for _ in range(request.count))) for request in requests]
        return await world.judge(groups)

    async def _episode(self, environment: Environment, seat: Seat) -> Trajectory:
        async with self.running(environment, seat) as episode:
            if isinstance(episode, Failed):
                asked = self.prompt_of(Played((Turn(""),)), seat)
                return trajectory(seat, Played((Turn(""),), contexts=(asked,), ended=Ended.FAILED, failure=episode))
            return trajectory(seat, await self._play(episode, seat))

    @asynccontextmanager
    async def running(self, environment: Environment, seat: Seat) -> AsyncIterator[Episode | Failed]:
        """Starts an episode and yields the episode or its failure. At the end the episode is closed in every case.

        If `environment.together` limits the open episodes, the start waits until another episode is closed.
        """
        async with seat.through:
            episode = await self._begun(environment, seat)
            try:
                yield episode
            finally:
                if not isinstance(episode, Failed) and await closed(episode, self.timeout) is not None:
                    seat.world.note("close_failed", 1.0)

    async def _begun(self, environment: Environment, seat: Seat) -> Episode | Failed:
        """Starts an episode. Returns the episode or its failure. If the step is repeated, a recorded timeout is reused."""
        request = seat.request
        key = seat.world.key.fold("environment", request.problem.id, *request.tags, request.sample + seat.index)
        call = f"environment/{trajectory_name(seat.world.step, request, seat.index)}/start"
        with doing(ENVIRONMENT), seat.world.waiting("the environment to start", f"problem {request.problem.id}", abandoned(seat.world, call)):
            known = seat.world.fact(call)
            episode = await started(environment, request.problem, key, seat.world, self.timeout) if known is None else Failed.read(known)
        if isinstance(episode, Failed) and episode.kind is FailureKind.TIMEOUT and known is None:
            seat.world.decide(call, episode.told)
        return episode

    async def _play(self, episode: Episode, seat: Seat, most: int | None = None) -> Played:
        """Plays the episode from its first turn to its end, or for `most` turns (None: `max_turns`, or fewer if the request has fewer turns)."""
        return await self.go_on(Played((episode.first,)), episode, seat, most)

    async def go_on(self, played: Played, episode: Episode, seat: Seat, most: int | None = None) -> Played:
        """Plays an episode from the state `played` to its end. All its turns together are at most `most` (None: as in `_play`)."""
        player, world = seat.request.player, seat.world
        for t in range(len(played.actions), min(self.max_turns, seat.request.turns or self.max_turns) if most is None else most):
            prompt = self.prompt_of(played, seat)
            if len(prompt.sequence) >= world.context_length(player):
                refuse_long(prompt, seat, t)
                return replace(played, ended=Ended.CONTEXT)
            sampled = await sample_turn(seat, t, prompt)
            action = world.said(sampled, len(prompt.sequence), player)
            answer = await self.answered(episode, action, seat, t)
            played, over = self.after(played, seat, prompt, sampled, action, answer)
            if over:
                return played
        return trailing(played, seat)

    def after(self, played: Played, seat: Seat, prompt: Context, sampled: Context, action: Any, answer: Turn | Failed) -> tuple[Played, bool]:
        """Adds to the episode an action that was sampled from `prompt`, and the environment's answer. Returns the longer episode, and whether it has
        ended.
        """
        turn = Turn("") if isinstance(answer, Failed) else answer
        kept = () if self.history is None else played.contexts  # the longer context replaces the earlier one
        contexts = (*kept, acted(prompt, sampled, len(played.actions), played.turns[-1], turn))
        played = replace(played, turns=(*played.turns, turn), actions=(*played.actions, action), contexts=contexts)
        if isinstance(answer, Failed):
            return replace(played, ended=Ended.FAILED, failure=answer), True
        if answer.terminated or answer.truncated:
            return trailing(replace(played, ended=Ended.ENVIRONMENT if answer.terminated else Ended.TRUNCATED), seat), True
        return (replace(played, ended=Ended.CONTEXT), True) if sampled.ended is Ended.CONTEXT else (played, False)

    async def answered(
        self, episode: Episode, action: Any, seat: Seat, turn: int, seats: Collection[str] | None = None, method: str = "step"
    ) -> Turn | Failed:
        """Returns the environment's answer to an action, or its failure. If the step is repeated, a recorded timeout is reused.

        `seats`: the names of the seats that may act next (None: only the request's player). `method`: see `environment_calls.stepped`.
        """
        world, name = seat.world, trajectory_name(seat.world.step, seat.request, seat.index)
        call = f"environment/{name}/{turn}"
        if (known := world.fact(call)) is not None:
            return Failed.read(known)
        with doing(ENVIRONMENT), world.waiting("the environment", f"turn {turn} of problem {seat.request.problem.id}", abandoned(world, call)):
            answer = await stepped(episode, action, seats or ("policy", seat.request.player), self.timeout, method)
        if isinstance(answer, Failed) and answer.kind is FailureKind.TIMEOUT:
            world.decide(call, answer.told)
        if isinstance(answer, Failed) or answer.errand is None:
            return answer
        return await self._done(answer, seat, turn)

    async def _done(self, answer: Turn, seat: Seat, turn: int) -> Turn | Failed:
        """Plays the errand of an answer. Returns the answer with the finding as its observation. `world.also` gets the sub-agent's trajectory."""
        errand: Any = answer.errand
        role = replace(seat, request=sent(errand, seat.request, seat.index, turn, self.roles), index=0, sent=True)
        try:
            played = await self._play(errand.episode, role, self.errand_turns)
        finally:
            if await closed(errand.episode, self.timeout) is not None:
                seat.world.note("close_failed", 1.0)
        if not played.contexts:  # its first prompt fills the context
            played = replace(played, contexts=(self.prompt_of(played, role),))
        name = trajectory_name(seat.world.step, seat.request, seat.index)
        seat.world.also([handed(errand, trajectory(role, played), name, turn, group_name(seat.request))])
        return played.failure or returned(answer, finding(errand, played.turns[-1].observation, played.ended))

    def prompt_of(self, played: Played, seat: Seat) -> Context:
        """Returns the context from which the next action is sampled."""
        request, world = seat.request, seat.world
        told = played.turns[-1].observation
        if self.history is None and played.contexts:
            grown = played.contexts[-1]
            return grown.then(world.follow(told, grown, request.player))
        if self.history is not None and isinstance(told, Mapping):
            opened = remembered(played, self.history, world, request.player)
        else:
            observation = told if self.history is None else recalled(played.turns, played.actions, self.history)
            opened = world.opening(opening(instruction(request, world.task.system), observation), request.player)
        return begun(seat.prompts.setdefault(opened.beginning(len(opened.sequence)), opened))


def remembered(played: Played, history: int, world: World, player: str) -> Context:
    """For an environment of arrays, returns a context of the last `history` turns and the current observation, without actions."""
    first = max(0, len(played.actions) - history)
    context = world.opening(played.turns[first].observation, player)
    for action, turn in zip(played.actions[first:], played.turns[first + 1 :], strict=True):
        taken = world.told(action, player).tokens
        context = context.then(prompt_context(taken))
        context = context.then(world.follow(turn.observation, context, player))
    return context


def trailing(played: Played, seat: Seat) -> Played:
    """Adds the last observation after the last action, if this observation consists of arrays. If the episode was cut off, the critic's value of this
    observation is the estimate of the missing rewards.
    """
    last = played.turns[-1].observation
    if not isinstance(last, Mapping) or not last:
        return played
    context = played.contexts[-1]
    grown = context.then(seat.world.follow(last, context, seat.request.player))
    return replace(played, contexts=(*played.contexts[:-1], grown))


def abandoned(world: World, call: str) -> Callable[[float], None]:
    """Returns a callback that records that a call of the environment timed out. A resumed run then does not repeat this call."""
    return lambda seconds: world.decide(call, Failed(f"the environment did not come back within {seconds:.0f} seconds", FailureKind.TIMEOUT).told)


def refuse_long(prompt: Context, seat: Seat, turn: int) -> None:
    """Raises UserError if the first turn does not fit the model's context, because then no episode of this problem can be played."""
    if turn == 0 and not seat.sent:
        length = seat.world.context_length(seat.request.player)
        raise UserError(
            f"the first prompt of problem {seat.request.problem.id} has {len(prompt.sequence)} tokens and leaves no room for the "
            f"action in the model's context of {length} tokens; take an easier level, shorter instructions or a model with a longer context"
        )


async def sample_turn(seat: Seat, turn: int, prompt: Context) -> Context:
    """Samples the player's next action after `prompt`. Returns the sampled context."""
    request = seat.request
    tags, sample = (*request.tags, "turn", turn), request.sample + seat.index
    sampling = request.sampling
    if stops := getattr(seat.world.task.environment, "stops", ()):
        sampling = sampling_of(request, seat.world)
        sampling = replace(sampling, stops=tuple(dict.fromkeys((*sampling.stops, *stops))))
    asked = replace(request, count=1, prompt=prompt, at=None, tags=tags, sample=sample, sampling=sampling)
    return (await seat.world.sample([asked]))[0][0]


def trajectory(seat: Seat, played: Played) -> Trajectory:
    """Returns the trajectory of an episode.

    The mapping `links` of the trajectory has `episode` (its name), `turns` and `invalid` (numbers of turns and of illegal actions), and `return` (the sum of
    the step rewards). If the episode has errands, `links` also has the number of `errands`. If tools were called, `links` has `calls`: a tuple
    (turn, name of the tool, whether it returned a result) per call.
    """
    name = trajectory_name(seat.world.step, seat.request, seat.index)
    answers = played.turns[1:]
    links: dict[str, Any] = {"episode": name, "turns": len(answers), "invalid": sum(not answer.valid for answer in answers)}
    links["return"] = math.fsum(answer.reward for answer in answers)
    if calls := [(i, *call) for i, answer in enumerate(answers) for call in answer.calls]:
        links["calls"] = tuple(calls)
    if errands := sum(answer.errand is not None for answer in answers):
        links["errands"] = errands
    return Trajectory(
        id=name,
        problem=seat.request.problem,
        contexts=played.contexts,
        player=seat.request.player,
        completion="\n".join(in_words(action, seat.acts) for action in played.actions),
        reward=played.failure,
        ended=played.ended,
        trained=seat.request.trained,
        links=Frozen(links),
    )
