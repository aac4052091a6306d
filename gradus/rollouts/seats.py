"""Episodes in which several seats act, one after the other or at the same time. Every seat has its own contexts, so each seat is a trajectory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gradus.rollouts.environment_calls import gate
from gradus.rollouts.episodes import Episodes, Played, Seat, refuse_long, sample_turn, trajectory
from gradus.rollouts.ids import group_name, trajectory_name
from gradus.rollouts.turns import acted
from gradus.types import Context, Ended, Failed, Frozen, Group, Request, Trajectory, UserError, unknown
from gradus.types.parts import Environment, Joint, Task, Turn, World


@dataclass(frozen=True)
class Table:
    """One episode of a rollout, and the observations and actions of each seat so far."""

    place: Seat  # the place of the episode's request
    sides: Mapping[str, Played]  # seat -> its part of the episode so far, in the order in which the seats first acted

    def seat(self, name: str, player: str) -> Seat:
        """Returns this episode as a `Seat` for the seat `name`.

        The requests of a seat name its player, and their tags contain the name of the seat. So two seats have different random draws.
        """
        request = replace(self.place.request, player=player, tags=(*self.place.request.tags, "seat", name))
        return replace(self.place, request=request)


@dataclass(frozen=True)
class Seats:
    """Plays `request.count` episodes of each problem. `Turn.player` names the seat that acts next; a `Joint` episode names several seats, which
    act at the same time.

    A group has the trajectories of one seat in all episodes of a problem, because seats have different prompts. The links of a trajectory are `episode` and
    `role`, the name of the seat. `Turn.reward` is the reward of all seats: each seat gets this reward at its last action, as the component "environment".
    `Turn.rewards` has the rewards of single seats, as the component "role". For the limit `play.max_turns`, one step of the environment is one turn.
    """

    players: Frozen[str] = Frozen()  # seat -> player; a seat without an entry is played by the request's player
    play: Episodes = Episodes()
    others: str | None = None  # player of every seat but the first, if `players` has no entry for the seat; None: the request's player
    gives: ClassVar[frozenset[str]] = frozenset({"turns", "seats"})
    plays: ClassVar[str] = "episodes"
    names_players: ClassVar[tuple[str, ...]] = ("players", "others")

    def check_task(self, task: Task) -> None:
        """Raises UserError if the environment names no seats, or if `players` names a seat that the environment does not have."""
        check_seats(task, self.players)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group for each request and each seat that acted."""
        seats = check_seats(world.task, self.players)
        prompts: dict[bytes, Context] = {}
        through = gate(world.task.environment)  # type: ignore[arg-type]
        places = [Seat(request, i, world, prompts, through) for request in requests for i in range(request.count)]
        played = iter(await asyncio.gather(*(self._episode(world.task.environment, seats, place) for place in places)))
        groups = []
        for request in requests:
            episodes = [next(played) for _ in range(request.count)]
            for seat in seats:
                if mine := tuple(episode[seat] for episode in episodes if seat in episode):
                    groups.append(Group(f"{group_name(request)}/{seat}", mine))
        return await world.judge(groups)

    async def _episode(self, environment: Any, seats: tuple[str, ...], place: Seat) -> dict[str, Trajectory]:
        """Plays one episode. Returns the trajectory of every seat that acted. If the environment did not start, returns only the trajectory of the
        first seat."""
        async with self.play.running(environment, place) as episode:
            if isinstance(episode, Failed):
                table = Table(place, {})
                first = table.seat(seats[0], self.player(seats[0], place))
                nothing = Played((Turn(""),), contexts=(self.play.prompt_of(Played((Turn(""),)), first),), ended=Ended.FAILED, failure=episode)
                return {seats[0]: self.told(table, seats[0], nothing)}
            table, turn, ended, failure = Table(place, {}), episode.first, Ended.TRUNCATED, None
            for t in range(self.play.max_turns):
                table, answer = await self._turn(episode, table, turn, t, seats)
                if answer is None:  # a context is full
                    ended = Ended.CONTEXT
                    break
                if isinstance(answer, Failed):
                    ended, failure = Ended.FAILED, answer
                    break
                table, turn = Table(place, rewarded(table.sides, answer)), answer
                if turn.terminated or turn.truncated:
                    ended = Ended.ENVIRONMENT if turn.terminated else Ended.TRUNCATED
                    break
            return {name: self.told(table, name, replace(side, ended=ended, failure=failure)) for name, side in table.sides.items()}

    async def _turn(self, episode: Any, table: Table, turn: Turn, t: int, seats: tuple[str, ...]) -> tuple[Table, Turn | Failed | None]:
        """Samples the actions of the seats that act in this turn, and gives them to the environment. Returns the table after this turn, and the environment's
        answer.

        If the context of one of these seats has no room for an action, no seat acts, and the answer is None.
        """
        joint = isinstance(episode, Joint)
        observed = dict(episode.acting()) if joint else {turn.player: turn.observation}
        for name in observed:
            if name not in seats:
                raise unknown("seat", name, seats, "The environment asks it to act")
        places = {name: table.seat(name, self.player(name, table.place)) for name in observed}
        sides = {name: seen(table.sides.get(name, Played()), replace(turn, observation=told)) for name, told in observed.items()}
        prompts = {name: self.play.prompt_of(side, places[name]) for name, side in sides.items()}
        world = table.place.world
        for name, prompt in prompts.items():
            if len(prompt.sequence) >= world.context_length(places[name].request.player):
                refuse_long(prompt, places[name], t)
                return table, None
        sampled = dict(zip(prompts, await asyncio.gather(*(sample_turn(places[n], t, p) for n, p in prompts.items())), strict=True))
        actions = {n: world.said(sampled[n], len(p.sequence), places[n].request.player) for n, p in prompts.items()}
        said: Any = actions if joint else next(iter(actions.values()))
        answer = await self.play.answered(episode, said, table.place, t, seats, "step_all" if joint else "step")
        after = Turn("") if isinstance(answer, Failed) else replace(answer, reward=0.0)
        for name, side in sides.items():
            kept = () if self.play.history is None else side.contexts
            contexts = (*kept, acted(prompts[name], sampled[name], t, side.turns[-1], after))
            sides[name] = replace(side, actions=(*side.actions, actions[name]), contexts=contexts)
        return Table(table.place, {**table.sides, **sides}), answer

    def player(self, seat: str, place: Seat) -> str:
        """Returns the player of a seat."""
        environment: Any = place.world.task.environment
        usual = place.request.player if self.others is None or seat == environment.seats[0] else self.others
        return self.players.get(seat, usual)

    def told(self, table: Table, name: str, side: Played) -> Trajectory:
        """Returns the trajectory of one seat."""
        made = trajectory(table.seat(name, self.player(name, table.place)), replace(side, turns=(Turn(""), *side.turns)))
        episode = trajectory_name(table.place.world.step, table.place.request, table.place.index)
        return made.but(id=f"{episode}/{name}", links=Frozen({**made.links, "episode": episode, "role": name}))


def check_seats(task: Task, players: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the seats of a task's environment. Raises UserError if the environment names no seats, or if `players` names an unknown seat."""
    environment: Environment | None = task.environment
    seats = tuple(getattr(environment, "seats", ()))
    if not seats:
        raise UserError(
            f'the rollout plays several seats, but the environment of task "{task.name}" names no seats; take a task of several seats, such as '
            "sokoban with --task.team true, or give the environment `seats` (the possible names in Turn.player)"
        )
    for name in players:
        if name not in seats:
            raise unknown("seat", name, seats, f'In rollout.players for task "{task.name}"')
    return seats


def seen(side: Played, turn: Turn) -> Played:
    """Adds the turn in which a seat acts now to the turns of this seat."""
    return replace(side, turns=(*side.turns, turn))


def rewarded(sides: Mapping[str, Played], answer: Turn) -> dict[str, Played]:
    """Adds the rewards of an answer to the last action of each seat: the reward of all seats, and the reward of this seat."""
    found = {}
    for name, side in sides.items():
        values = (("environment", float(answer.reward)), ("role", float(answer.rewards.get(name, 0.0))))
        context = side.contexts[-1]
        more = tuple((context.actions - 1, component, value) for component, value in values if value)
        found[name] = replace(side, contexts=(*side.contexts[:-1], replace(context, rewards=(*context.rewards, *more)))) if more else side
    return found
