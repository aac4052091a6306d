"""One task with composed string functions of very different difficulty: most problems are too easy or too hard to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradus.tasks.generated import Generated
from gradus.tasks.text.string_ops import string_ops
from gradus.types import Frozen, Key, Problem, UserError, unknown
from gradus.types.parts import Task
from gradus.types.returned import check_drawn


def ladder(levels: str = "1,1,3,8,8") -> Task:
    """Makes a task with problems of `string_ops`, one level after the other. A level that is listed twice in `levels` has twice the share.

    The levels are the arms of the source, so that a curriculum can choose between them. A problem's `difficulty` is its level.
    Raises: UserError unless the text is whole numbers with commas between them, and all of them are levels of string_ops.
    """
    try:
        rungs = tuple(int(text) for text in levels.split(","))
    except ValueError:
        raise UserError(f'task ladder: `levels` is "{levels}"; write whole numbers separated by commas, such as 1,3,8') from None
    hardest = string_ops(level=max(rungs))
    for level in rungs:
        string_ops(level=level)
    assert isinstance(hardest.source, Generated)
    return replace(
        hardest,
        name="ladder",
        source=Rungs(hardest.source, rungs),
        held_out=Rungs(replace(hardest.source, held_out=True), rungs),
        level=None,
        about="string_ops at several levels in turn, by default trivial, suitable and impossible problems; levels=1,1,3,8,8",
    )


@dataclass(frozen=True)
class Rungs:
    """A source whose problem i is problem i of a generated source at level `levels[i % len(levels)]`."""

    source: Generated
    levels: tuple[int, ...]
    size: int | None = None

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Draws the problems at these indices, each at its own level, or all of them at `level` if `level` is given."""
        if level is not None:
            return self.source.draw(indices, level, key)
        at = [self.levels[i % len(self.levels)] for i in indices]
        found: dict[int, Problem] = {}
        for rung in sorted(set(at)):
            wanted = [i for i, own in zip(indices, at, strict=True) if own == rung]
            problems = self.source.draw(wanted, rung, key)
            check_drawn(self.source, problems, wanted)
            found |= dict(zip(wanted, problems, strict=True))
        return [found[i] for i in indices]

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the arms: one per level, such as "ladder/3"."""
        return tuple(f"ladder/{rung}" for rung in sorted(set(self.levels)))

    def draw_arm(self, arm: str, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Draws the problems of one arm at these indices, with the arm's name in `meta`. Raises UserError for an unknown arm."""
        if arm not in self.arms:
            raise unknown("arm", arm, self.arms, "These are the arms of task ladder")
        inner = f"{self.source.task}/{arm.rpartition('/')[2]}"
        return [replace(p, meta=Frozen({**p.meta, "arm": arm})) for p in self.source.draw_arm(inner, indices, None, key)]
