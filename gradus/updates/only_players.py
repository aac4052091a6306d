"""An update of some players alone: the others stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.types import Key, UserError, unknown
from gradus.types.batch import Batch
from gradus.types.parts import Update
from gradus.types.returned import check_numbers
from gradus.updates.minibatches import Minibatches


@dataclass(frozen=True)
class OnlyPlayers:
    """Moves the players named here by `update` and leaves all others."""

    players: tuple[str, ...] = ("policy",)
    update: Update | None = Minibatches()  # None: the recipe's own, where a schedule says so
    names_players: ClassVar[tuple[str, ...]] = ("players",)

    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Batch], step: int, key: Key) -> dict[str, float]:
        """The metrics of the players that moved. Raises UserError for one that there is not, and where there is no update to move them by."""
        if self.update is None:
            raise UserError("OnlyPlayers has no update to move its players by; set --update.update Minibatches")
        for name in self.players:
            if name not in players:
                raise unknown("player", name, players, "OnlyPlayers moves it; name one of the recipe's")
        mine = {name: batch for name, batch in batches.items() if name in self.players}
        metrics = self.update.apply(players, mine, step, key)
        check_numbers(self.update, "apply", metrics)
        return metrics
