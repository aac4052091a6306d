"""Converts rows that a user gives as Python objects to the bytes of a file. A list of dictionaries becomes JSON lines, and a data set becomes Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradus.types import UserError

if TYPE_CHECKING:
    from gradus.tasks.data.files import BadRow, Row, Table


ROWS = ("problems.jsonl", "problems.parquet")
"""The names of the files for rows that came from memory."""


@dataclass(frozen=True)
class InMemory:
    """The content of a file of rows. A run with a folder stores the content there under the name from `file`. So the run can be resumed later."""

    file: str  # problems.jsonl or problems.parquet
    content: bytes

    def __str__(self) -> str:
        return "the data in memory"

    def __repr__(self) -> str:
        return f"InMemory({self.file}, {len(self.content)} bytes)"

    def table(self) -> Table:
        """Returns the rows as the file would give them. Raises UserError if there are no rows."""
        if self.file.endswith(".parquet"):
            import numpy as np
            import pyarrow.parquet

            from gradus.tasks.data.files import ArrowTable

            found = pyarrow.parquet.read_table(io.BytesIO(self.content))
            table: Table = ArrowTable(Path(str(self)), found, np.arange(1, found.num_rows + 1))
        else:
            table = Lines(str(self), tuple(self.content.splitlines()))
        if not len(table):
            raise UserError(f"{self} is empty; give at least two problems")
        return table


@dataclass(frozen=True, eq=False)
class Lines:
    """JSON lines in memory, one object per line."""

    name: str
    lines: tuple[bytes, ...]
    lost: tuple[BadRow, ...] = ()
    empty: int = 0

    def __len__(self) -> int:
        return len(self.lines)

    def rows(self, indices: Sequence[int]) -> list[Row]:
        from gradus.tasks.data.files import parse_line

        return [parse_line(self.lines[i], self.where(i)) for i in indices]

    def where(self, index: int) -> str:
        return f"{self.name}, row {index + 1}"


def in_memory(given: Any) -> InMemory | None:
    """Converts a list of dictionaries or a data set of the package `datasets` to rows in memory; returns None for any other object.

    Raises UserError if a row or a value cannot be stored in a file, or if a data set has several splits or can only be iterated.
    """
    kind = f"{type(given).__module__.partition('.')[0]}.{type(given).__name__}"
    if kind in ("datasets.DatasetDict", "datasets.IterableDatasetDict", "datasets.IterableDataset"):
        remedy = "give one split, for example data['train']" if "Dict" in kind else "give a Dataset, for example Dataset.from_list(list(data))"
        raise UserError(f"the task is a {type(given).__name__}; {remedy}")
    if kind == "datasets.Dataset":
        import pyarrow.parquet

        sink = io.BytesIO()
        pyarrow.parquet.write_table(given.with_format("arrow")[:], sink)
        return InMemory("problems.parquet", sink.getvalue())
    if isinstance(given, list | tuple):
        return InMemory("problems.jsonl", b"".join(_line(row, number) for number, row in enumerate(given, start=1)))
    return None


def _line(row: Any, number: int) -> bytes:
    where = f"the data in memory, row {number}"
    if not isinstance(row, Mapping):
        raise UserError(f'{where}: the row is of type {type(row).__name__}; it must be a dictionary, for example {{"prompt": ..., "answer": ...}}')
    if odd := next((name for name in row if not isinstance(name, str)), None):
        raise UserError(f"{where}: the column {odd!r} is of type {type(odd).__name__}; the name of a column must be text")
    try:
        return (json.dumps(dict(row), default=_plain, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: {error}; convert the value to text, numbers or lists") from None


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()  # of NumPy or PyTorch
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON")
