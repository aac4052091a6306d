"""Prepares the updates of a step. The module prepares four things for each player: its groups, the signals of these groups, its credit, and the batch of its
update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gradus.training.rounds import with_streams_of
from gradus.types import Group
from gradus.types.parts import Credited
from gradus.types.signals import Signal, View

if TYPE_CHECKING:
    from gradus.training.run import Run
    from gradus.training.world import RunWorld
    from gradus.types.batch import Batch


@dataclass(frozen=True)
class Choices:
    """For each player with its own selection: the chosen groups and the dropped groups of a step."""

    kept: Mapping[str, list[Group]]
    dropped: Mapping[str, list[Group]]
    credited: dict[str, list[Group]] = field(default_factory=dict)  # player -> the groups with credit from the rounds so far

    async def learn(self, run: Run, world: RunWorld) -> None:
        """Calls `learn` of each player's own selection, with its chosen groups (which now have credit) and its dropped groups."""
        for name, dropped in self.dropped.items():
            part = run.players[name].spec.selection
            await run.memory.learn_at(f"players.{name}.selection", part, self.credited.get(name, []), dropped, world)


class Lessons:
    """The work of the learning players in a round. `kept`: the groups that the recipe's selection kept for the round."""

    def __init__(self, run: Run, kept: Sequence[Group], chosen: Choices, world: RunWorld) -> None:
        self.run, self.kept, self.chosen, self.world = run, list(kept), chosen, world
        self.credited: dict[str, list[Group]] = {"policy": list(kept)}
        self.streak = run.numbers["streak"]
        self._views: dict[tuple[View, int], Any] = {}

    @property
    def waves(self) -> list[list[str]]:
        """Returns the learning players in waves. The players of a wave are updated together.

        The first wave has the players with `first`, and the second wave has all other players.

        If no player has `first`, there is one wave.
        """
        learning = [name for name, player in self.run.players.items() if player.learns]
        first = [name for name in learning if self.run.players[name].spec.first]
        return [first, [name for name in learning if name not in first]] if first else [learning]

    async def begin(self) -> None:
        """Reads signals of the first wave's players before they are updated, because later waves need these signals. Does not read `fresh` signals."""
        first, *later = self.waves
        for name in (n for wave in later for n in wave):
            before = [s for s in self._needs(name) if not s.fresh and s.player in first]
            if before:
                await self.world.signals(self._seen(name, theirs(self._groups(name), self._source(name))), before)

    async def batches(self, wave: Sequence[str]) -> dict[str, Batch]:
        """Makes one batch with advantages for each player of the wave. Returns {} if an update of this step had non-finite numbers."""
        from gradus.objectives.terms import needs_of
        from gradus.types.batch import make_batch

        found: dict[str, Batch] = {}
        if self.run.numbers["streak"] > self.streak or self.run.numbers["broken"]:
            return found
        for name in wave:
            player = self.run.players[name]
            spec = player.spec
            if not self._groups(name):
                continue
            source = self._source(name)
            credit, place = self._credit(name)
            plain = theirs(self._groups(name) if credit is not None else self.credited[source], source)
            seen = self._seen(name, plain)
            signals = await self.world.signals(seen, self._needs(name))
            if credit is not None:
                rule = await self.run.memory.call(place, credit, "assign", seen, signals)
                seen, same = with_credit(seen, rule), seen is plain
                plain = seen if same else with_credit(plain, rule)
            self.credited[name] = plain
            self.chosen.credited.setdefault(name, []).extend(plain)
            seen = with_streams_of(seen, spec.objective, signals)
            made = make_batch(seen, {s: signals[s] for s in needs_of(spec.objective)}, dtype=player.dtype)
            if made.actions:  # it is possible that no trajectory of the groups is trained
                found[name] = made
        return found

    def _source(self, name: str) -> str:
        spec = self.run.players[name].spec
        return name if spec.learns_from == "own" else spec.learns_from

    def _credit(self, name: str) -> tuple[Any, str]:
        """Returns the credit rule of a player and its path. If a player learns from its own trajectories and has no rule, the rule of the recipe is used."""
        spec = self.run.players[name].spec
        shared = name != "policy" and spec.credit is None and self._source(name) == name
        return (self.run.recipe.credit, "credit") if shared else (spec.credit, "credit" if name == "policy" else f"players.{name}.credit")

    def _groups(self, name: str) -> list[Group]:
        return self.chosen.kept.get(name, self.kept)

    def _needs(self, name: str) -> tuple[Signal, ...]:
        from gradus.objectives.terms import needs_of

        return (*getattr(self._credit(name)[0], "needs", ()), *needs_of(self.run.players[name].spec.objective))

    def _seen(self, name: str, groups: list[Group]) -> list[Group]:
        """Returns the groups as the player's view shows them.

        During a step, the view of a context is made only once, so that no signal is read twice.
        """
        view = self.run.players[name].spec.sees
        if view is None:
            return groups

        def of(context: Any, trajectory: str, index: int) -> Any:
            if (view, id(context)) not in self._views:
                key = self.world.key.fold("sees", name, trajectory, index)
                self._views[view, id(context)] = context, view.of(context, key)  # the context stays alive, so that no other object gets its id
            return self._views[view, id(context)][1]

        return [
            g.but(trajectories=tuple(t.but(contexts=tuple(of(c, t.id, i) for i, c in enumerate(t.contexts))) for t in g.trajectories))
            for g in groups
        ]


async def choices(run: Run, groups: Sequence[Group], world: RunWorld) -> Choices:
    """Asks each player's own selection which groups of the step the player learns from."""
    kept, dropped = dict[str, list[Group]](), dict[str, list[Group]]()
    for name, player in run.players.items():
        if player.learns and player.spec.selection is not None:
            key = world.key.fold("selection", name)
            found = await run.memory.call(f"players.{name}.selection", player.spec.selection, "keep", list(groups), key)
            kept[name], dropped[name] = found
    return Choices(kept, dropped)


async def begun(run: Run, kept: Sequence[Group], chosen: Choices, world: RunWorld) -> Lessons:
    """Makes the lessons of a round and reads their first signals."""
    lessons = Lessons(run, kept, chosen, world)
    await lessons.begin()
    return lessons


async def credit(run: Run, kept: Sequence[Group], world: RunWorld) -> tuple[list[Group], dict[str, Batch]]:
    """Returns the policy's groups with advantages, and one batch per learning player. No player is updated, not even between two waves."""
    lessons = await begun(run, kept, await choices(run, kept, world), world)
    batches = {name: batch for wave in lessons.waves for name, batch in (await lessons.batches(wave)).items()}
    return lessons.credited["policy"], batches


def theirs(groups: Sequence[Group], player: str) -> list[Group]:
    """Removes the trajectories of other players, and the groups that become empty."""
    mine = (g.but(trajectories=tuple(t for t in g.trajectories if t.player == player)) for g in groups)
    return [g for g in mine if g.trajectories]


def with_credit(groups: Sequence[Group], credits: Sequence[Sequence[Credited]]) -> list[Group]:
    """Puts the advantages, returns and weights of `credits` into the trajectories of the groups."""
    return [
        g.but(trajectories=tuple(t.but(advantages=c.advantages, returns=c.returns, weights=c.weights) for t, c in zip(g.trajectories, row, strict=True)))
        for g, row in zip(groups, credits, strict=True)
    ]
