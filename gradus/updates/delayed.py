"""An update that changes some players less often than others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.types import Key, unknown
from gradus.types.batch import Batch
from gradus.types.parts import Update
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_numbers
from gradus.updates.minibatches import Minibatches


@dataclass(frozen=True)
class Delayed:
    """Updates `players` once for every `every` updates of the player `after`. All other players are updated every time.

    Reference: Fujimoto et al., TD3, arXiv:1802.09477, section 5.2. If `after` learns before `players` (see `Player.first`), the update of `after` in the same round
    counts.
    """

    players: tuple[str, ...] | None = None  # None: all players except `after`
    every: int = 2  # 1: with every update
    after: str = "critic"
    update: Update = Minibatches()
    names_players: ClassVar[tuple[str, ...]] = ("players", "after")

    @property
    def divides(self) -> bool:
        """Whether the update also works if the weights are divided among processes (see `Minibatches`)."""
        return bool(getattr(self.update, "divides", False))

    def __post_init__(self) -> None:
        check_ranges(self, every="[1, inf)")

    def delays(self, name: str) -> bool:
        """Whether this player waits for the updates of `after`."""
        return name != self.after if self.players is None else name in self.players

    def apply(self, players: Mapping[str, Any], batches: Mapping[str, Batch], step: int, key: Key) -> dict[str, float]:
        """Applies `update`, in most rounds without `players`. Returns the metrics. Raises UserError for an unknown player."""
        for name in (*(self.players or ()), self.after):
            if name not in players:
                raise unknown("player", name, players, "Delayed names this player; name a player of the recipe")
        due = (players[self.after].updates + (self.after in batches)) % self.every == 0
        moving = {name: batch for name, batch in batches.items() if due or not self.delays(name)}
        metrics = self.update.apply(players, moving, step, key)
        check_numbers(self.update, "apply", metrics)
        return metrics
