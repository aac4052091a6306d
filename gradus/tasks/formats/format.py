"""The format of a published data set: a function that turns a row of the data set into a row with a prompt and an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.tasks.data.files import BadRow, Row, RowError, Table, kind
from gradus.types.answers import final_answer


class Malformed(ValueError):
    """The error for a row that does not have the format. `field`: the wrong column; `reason`: the reason with the remedy."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f'"{field}" {reason}')
        self.field, self.reason = field, reason


@dataclass(frozen=True)
class Format:
    """The format of the rows of one or several published data sets.

    `read` returns the row's `prompt` and `answer`, and further columns, such as `solution`, `chosen` and `rejected`. `read` raises Malformed for a
    row of another form.
    """

    name: str
    about: str  # the content of a row, in a few words
    hub: tuple[str, ...]  # names of data sets on the Hugging Face Hub that have this format
    read: Callable[[Row], Row]
    verify: str = "final_answer"  # the verifier that judges answers, if the user names none


@dataclass(frozen=True, eq=False)
class Formatted:
    """A table whose rows are read in a format. `official`: the table of the official rows."""

    official: Table
    format: Format

    def __len__(self) -> int:
        return len(self.official)

    @property
    def lost(self) -> tuple[BadRow, ...]:
        return self.official.lost

    @property
    def empty(self) -> int:
        return self.official.empty

    @property
    def path(self) -> Any:
        """The file of the table; relative paths of pictures start in its folder. None for a table without a file."""
        return getattr(self.official, "path", None)

    @property
    def unread(self) -> tuple[str, ...]:
        """The splits of the data set that the task does not read."""
        return tuple(getattr(self.official, "unread", ()))

    def rows(self, indices: Sequence[int]) -> list[Row]:
        """Returns the rows in the format. Raises RowError, which names the row and the column, for a row of another form."""
        return [self._read(row, index) for index, row in zip(indices, self.official.rows(indices), strict=True)]

    def where(self, index: int) -> str:
        return self.official.where(index)

    def _read(self, row: Row, index: int) -> Row:
        try:
            found = self.format.read(row)
        except Malformed as error:
            reason = f"{error.reason} (format {self.format.name}: {self.format.about})"
            raise RowError(self.where(index), reason, error.field) from None
        return {name: value for name, value in found.items() if value is not None}


def text(row: Mapping[str, Any], *path: str) -> str:
    """Returns the text in a column, or in a member of a column: text(row, "reward_model", "ground_truth"). Raises Malformed if there is no text."""
    found = value(row, *path)
    if not isinstance(found, str) or not found.strip():
        raise Malformed(".".join(path), f"is {kind(found) if not isinstance(found, str) else 'empty'}; it must be text")
    return found


def value(row: Mapping[str, Any], *path: str) -> Any:
    """Returns the value in a column, or in a member of a column. Raises Malformed if the value is missing."""
    found: Any = row
    for depth, name in enumerate(path, start=1):
        if not isinstance(found, Mapping) or found.get(name) is None:
            raise Malformed(
                ".".join(path[:depth]), "is missing; name another format with --task.format, or name the columns with --task.prompt_column "
                "and --task.answer_column"
            )
        found = found[name]
    return found


def texts(row: Mapping[str, Any], *path: str) -> list[str]:
    """Returns a list of texts in a column; a single text counts as a list with one text. Raises Malformed for other values and for an empty list."""
    found = value(row, *path)
    found = [found] if isinstance(found, str) else found
    if not isinstance(found, list | tuple) or not found or not all(isinstance(one, str) for one in found):
        raise Malformed(".".join(path), f"is {kind(found)}; it must be a list of texts")
    return list(found)


def parsed(row: Mapping[str, Any], *path: str) -> Any:
    """Parses a column that contains JSON as text. Any other value is returned unchanged. Raises Malformed if the text is not JSON."""
    found = value(row, *path)
    if not isinstance(found, str):
        return found
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        raise Malformed(".".join(path), "is not valid JSON; give the official file") from None


def whole(row: Mapping[str, Any], *path: str) -> int:
    """Returns a whole number, also one that is written as text. Raises Malformed for other values."""
    found = value(row, *path)
    try:
        if isinstance(found, bool) or int(found) != float(found):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise Malformed(".".join(path), f"is {found!r:.40}; it must be a whole number") from None
    return int(found)


def concluded(solution: Any, answer: str) -> str | None:
    """Returns a worked solution that states its answer: adds the line "Answer: ..." if the solution marks no answer. Returns None without a solution."""
    if not isinstance(solution, str) or not solution.strip():
        return None
    return solution if final_answer(solution) != solution.strip() else f"{solution.rstrip()}\nAnswer: {answer}"


def kept(row: Mapping[str, Any], *columns: str) -> Row:
    """Returns the columns that the row has, for the problem's `meta`."""
    return {name: row[name] for name in columns if row.get(name) is not None}
