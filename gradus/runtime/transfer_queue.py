"""A table from which tasks take rows. A task takes each row once, as soon as the columns that the task reads are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gradus.types.errors import unknown


@dataclass(eq=False)
class TransferQueue:
    """The rows of a step, and the tasks that read them.

    `needs`: the columns that each task reads. `whole`: tasks that take a group of rows only when all its rows are ready; row r belongs to group r // `group`.
    Reference: Han et al., AsyncFlow, arXiv:2507.01663 (TransferQueue). This table holds no data: the caller keeps the values of its rows.
    """

    needs: Mapping[str, Collection[str]]
    group: int = 1
    whole: Collection[str] = ()
    written: dict[int, set[str]] = field(default_factory=dict)  # row -> its columns
    taken: dict[str, set[int]] = field(default_factory=dict)  # task -> the rows that it has taken

    def add(self, rows: Iterable[int]) -> None:
        """Adds rows without columns."""
        for row in rows:
            self.written.setdefault(row, set())

    def put(self, rows: Iterable[int], column: str) -> None:
        """Marks a column of rows as written."""
        for row in rows:
            self.written.setdefault(row, set()).add(column)

    def ready(self, task: str) -> list[int]:
        """Returns the rows that a task can take, in the order of their numbers. A `whole` task can take only whole groups.

        Raises: UserError for an unknown task.
        """
        if task not in self.needs:
            raise unknown("task of the queue", task, self.needs)
        taken, needed = self.taken.get(task, set()), set(self.needs[task])
        rows = [row for row in sorted(self.written) if row not in taken and needed <= self.written[row]]
        if task not in self.whole:
            return rows
        by: dict[int, list[int]] = {}
        for row in rows:
            by.setdefault(row // self.group, []).append(row)
        return [row for members in by.values() if len(members) == self.group for row in members]

    def get(self, task: str, most: int) -> list[int]:
        """Returns at most `most` of the rows that are ready for a task, and marks them as taken by it. A `whole` task gets whole groups."""
        rows = self.ready(task)[: most // self.group * self.group if task in self.whole else most]
        self.taken.setdefault(task, set()).update(rows)
        return rows

    def finished(self, task: str) -> bool:
        """Whether a task has taken every row."""
        return len(self.taken.get(task, ())) == len(self.written)
