"""A source that gives problems of several kinds, one kind after the other. Each kind has its own generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradus.types import Frozen, Key, Problem, unknown
from gradus.types.parts import Source
from gradus.types.returned import check_drawn


@dataclass(frozen=True)
class SeveralKinds:
    """A source whose problem i is of kind i modulo the number of kinds. The kinds are the arms of the source."""

    sources: Frozen[Source]
    few: int | None = None  # the last kind repeats its first `few` problems; None: it does not
    size: int | None = None

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        count, found = len(self.arms), dict[int, Problem]()
        for place, arm in enumerate(self.arms):
            mine = [i for i in indices if i % count == place]
            found |= dict(zip(mine, self.draw_arm(arm, [i // count for i in mine], level, key), strict=True))
        return [found[i] for i in indices]

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the kinds."""
        return tuple(self.sources)

    def draw_arm(self, arm: str, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Draws the problems of one kind at these indices, with the kind's name in `meta`. Raises UserError for an unknown kind."""
        if arm not in self.arms:
            raise unknown("arm", arm, self.arms, "This task has several kinds")
        source = self.sources[arm]
        at = [i % self.few for i in indices] if self.few and arm == self.arms[-1] else list(indices)
        drawn = source.draw(at, None, key)
        check_drawn(source, drawn, at)
        return [replace(p, id=f"{arm}-{p.id}", meta=Frozen({**p.meta, "arm": arm})) for p in drawn]
