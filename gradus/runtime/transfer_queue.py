"""A table of rows for several tasks. Each task takes each row once, as soon as all columns that the task reads are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gradus.types.errors import unknown


@dataclass(eq=False)
class TransferQueue:
    """The rows of a step, and the tasks that read them.

    `needs`: the columns that each task reads.
    Reference: Han et al., AsyncFlow, arXiv:2507.01663 (TransferQueue). This table holds no data: the caller keeps the values of its rows.
    """

    needs: Mapping[str, Collection[str]]
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
        """Returns the rows that a task can take, in the order of their numbers. Raises UserError for an unknown task."""
        if task not in self.needs:
            raise unknown("task of the queue", task, self.needs)
        taken, needed = self.taken.get(task, set()), set(self.needs[task])
        return [row for row in sorted(self.written) if row not in taken and needed <= self.written[row]]

    def get(self, task: str, most: int) -> list[int]:
        """Returns at most `most` of the rows that are ready for a task, and marks them as taken by it."""
        rows = self.ready(task)[:most]
        self.taken.setdefault(task, set()).update(rows)
        return rows

    def finished(self, task: str) -> bool:
        """Whether a task has taken every row."""
        return len(self.taken.get(task, ())) == len(self.written)
