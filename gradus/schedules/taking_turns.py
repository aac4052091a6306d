"""Trains several players in turns: some steps train one player, and the next steps train another one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gradus.types.errors import UserError
from gradus.types.moments import Event, Moment
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class TakingTurns:
    """Updates one player per step, with the recipe's own update inside `update`. All other players stay unchanged in this step.

    `update` is a wrapper of an update with the fields `players` and `update`, such as `OnlyPlayers(update=None)`; the schedule sets both fields.

    Each player of `players` learns for `steps` steps, in order; then the list begins again. A name may occur several times. In the first `warmup` steps
    only the last player of the list learns.
    """

    players: tuple[str, ...]
    update: Any
    steps: int = 1  # steps of each entry of the list
    warmup: int = 0  # steps before the first round; 0: none

    def __post_init__(self) -> None:
        check_ranges(self, steps="[1, inf)", warmup="[0, inf)")
        if not self.players:
            raise UserError('TakingTurns.players is empty; name the players in their order, such as ("policy", "checker")')

    def sets(self, recipe: Any) -> tuple[tuple[str, Any], ...]:
        return tuple(("update", self._only(name, recipe)) for name in dict.fromkeys(self.players))

    def at(self, now: Moment, recipe: Any) -> tuple[Any, tuple[Event, ...]]:
        return recipe.but(update=self._only(self.player(now.step), recipe)), ()

    def _only(self, player: str, recipe: Any) -> Any:
        return replace(self.update, players=(player,), update=recipe.update)

    def player(self, step: int) -> str:
        """Returns the player that is updated in a step. Steps are counted from 0.

        >>> turns = TakingTurns(("a", "a", "b"), None, warmup=2)
        >>> "".join(turns.player(step) for step in range(9))
        'bbaabaaba'
        """
        if step < self.warmup:
            return self.players[-1]
        return self.players[(step - self.warmup) // self.steps % len(self.players)]
