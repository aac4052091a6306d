"""Reads tables of rows from files of JSON lines, Parquet or CSV.

A JSON-lines table keeps the offset of each line, and reads a row from the file when the row is needed. The table of a Parquet or CSV file keeps Arrow columns.
The table of a JSON array keeps all objects in memory.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from gradus.types import UserError

Row = dict[str, Any]
FORMATS = ".jsonl, .ndjson, .json (one array, or one object per line), .parquet, .csv"
UNREADABLE = {
    "": "add its kind to its name, as in {path}.jsonl",
    ".gz": "unpack it: gunzip --keep {path}",
    ".zip": "unpack it",
    ".tsv": "save it as .csv, with commas between the columns",
    ".xlsx": "save the sheet as .csv",
    ".xls": "save the sheet as .csv",
}
"""Ending of the name of a file that Gradus cannot read -> the remedy."""
CHUNK = 1024  # rows held as Python objects at a time
TEXT = 2000  # characters kept of a bad row


class RowError(UserError):
    """The error for a row that cannot be used.

    `where`: file and line of the row; `field`: the wrong field (None: the row itself); `reason`: the reason with the remedy.
    """

    def __init__(self, where: str, reason: str, field: str | None = None) -> None:
        super().__init__(f'{where}: "{field}" {reason}' if field is not None else f"{where}: {reason}")
        self.where, self.field, self.reason = where, field, reason


@dataclass(frozen=True)
class BadRow:
    """A row that was left out.

    `place`: its line or row in words ("line 7"); `field`: the wrong field; `text`: the row as text (at most TEXT characters).
    """

    file: str
    place: str
    field: str | None
    reason: str
    text: str


class Table(Protocol):
    """A table whose rows have the indices 0 to len - 1, in the order of the file.

    `lost`: the rows that cannot be read; `empty`: the number of empty lines. Neither lost rows nor empty lines have an index.
    """

    @property
    def lost(self) -> tuple[BadRow, ...]: ...

    @property
    def empty(self) -> int: ...

    def __len__(self) -> int: ...

    def rows(self, indices: Sequence[int]) -> list[Row]: ...

    def where(self, index: int) -> str:
        """Returns the file and line of a row in words: 'data.jsonl, line 7'."""
        ...


@dataclass(frozen=True, eq=False)
class JsonLines:
    """A file with one JSON object per line. Blank lines are skipped. `offsets`, `lines`: the first byte and the line number (from 1) of each row, int64."""

    path: Path
    offsets: np.ndarray
    lines: np.ndarray
    lost: tuple[BadRow, ...] = ()
    empty: int = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def rows(self, indices: Sequence[int]) -> list[Row]:
        with self.path.open("rb") as file:
            return [self._row(file, i) for i in indices]

    def _row(self, file: Any, index: int) -> Row:
        file.seek(int(self.offsets[index]))
        return parse_line(file.readline(), self.where(index))

    def where(self, index: int) -> str:
        return f"{self.path}, line {self.lines[index]}"


@dataclass(frozen=True, eq=False)
class JsonArray:
    """The objects of one JSON array."""

    path: Path
    items: tuple[Row, ...]
    lost: tuple[BadRow, ...] = ()
    empty: int = 0

    def __len__(self) -> int:
        return len(self.items)

    def rows(self, indices: Sequence[int]) -> list[Row]:
        return [dict(self.items[i]) for i in indices]

    def where(self, index: int) -> str:
        return f"{self.path}, item {index + 1}"


@dataclass(frozen=True, eq=False)
class ArrowTable:
    """The columns of a Parquet or CSV file."""

    path: Path
    table: Any  # pyarrow.Table
    numbers: np.ndarray  # int64, the number of every row as a user counts it, from 1
    lost: tuple[BadRow, ...] = ()
    empty: int = 0

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def rows(self, indices: Sequence[int]) -> list[Row]:
        found: list[Row] = self.table.take(list(indices)).to_pylist()
        return found

    def where(self, index: int) -> str:
        return f"{self.path}, row {self.numbers[index]}"


def chunks(table: Table) -> Iterator[tuple[int, list[Row]]]:
    """Yields the rows in order, at most CHUNK at a time, as (index of the first row, rows)."""
    for start in range(0, len(table), CHUNK):
        yield start, table.rows(range(start, min(start + CHUNK, len(table))))


def each_row(table: Table) -> Iterator[tuple[int, Row | RowError]]:
    """Yields (index, row) for every row in order. For an unreadable row, yields (index, error)."""
    for start in range(0, len(table), CHUNK):
        indices = range(start, min(start + CHUNK, len(table)))
        try:
            yield from zip(indices, table.rows(indices), strict=True)
        except RowError:
            for index in indices:  # one by one, to separate bad rows from good ones
                try:
                    yield index, table.rows([index])[0]
                except RowError as error:
                    yield index, error


def bad_row(table: Table, index: int, error: RowError) -> BadRow:
    """Returns the record of a row that is left out."""
    source = getattr(table, "official", table)  # the official rows, if the table is read in a format
    if isinstance(source, JsonLines):
        with source.path.open("rb") as file:
            file.seek(int(source.offsets[index]))
            text = file.readline(TEXT * 4).decode(errors="replace").rstrip("\r\n")
    else:
        text = json.dumps(source.rows([index])[0], default=str)
    path, _, place = table.where(index).rpartition(", ")
    return BadRow(path, place, error.field, error.reason, text[:TEXT])


def read_table(path: Path, prompt_column: str | None = None, *, lossy: bool = False) -> Table:
    """Reads the table in a file. The extension decides the format. With `lossy`, `Table.lost` collects the unreadable rows; without it, an unreadable row is
    an error.

    Raises UserError if the file is missing, a folder, empty, unreadable, or in none of the FORMATS.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder; give one file ({FORMATS}) or a folder written by datasets' save_to_disk")
    if not path.is_file():
        raise UserError(f"there is no file {path}; check the path (a relative path starts at {Path.cwd()})")
    readers: dict[str, Callable[[Path, str | None], Table]] = {
        ".jsonl": _jsonl,
        ".ndjson": _jsonl,
        ".json": _json,
        ".parquet": _parquet,
        ".csv": _csv,
    }
    reader = readers.get(path.suffix.lower())
    if path.suffix.lower() == ".py":
        raise UserError(f"{path} is a Python file; write the file, a colon and the name of the task, for example {path}:task")
    if reader is None:
        remedy = UNREADABLE.get(path.suffix.lower(), f"convert it to one of {FORMATS}").replace("{path}", str(path))
        ending = f'ends in "{path.suffix}", and Gradus does not read such files' if path.suffix else "has no ending, so its format is not known"
        raise UserError(f"{path} {ending}; {remedy}")
    try:
        table = reader(path, prompt_column)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}; check the file and its permissions") from error
    if table.lost and not lossy:
        raise RowError(f"{path}, {table.lost[0].place}", table.lost[0].reason)
    if len(table) == 0 and not table.lost:
        raise UserError(f"{path} has no rows; give a file with at least two problems")
    return table


def parse_line(line: bytes, where: str) -> Row:
    """Parses the JSON object on a line. Raises RowError, which names the file and line, if the line is not a JSON object."""
    try:
        row = json.loads(line.rstrip(b"\r\n").decode(), parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_distinct_names)
    except UnicodeDecodeError as error:
        raise RowError(where, f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        reason = f"not valid JSON at character {error.pos + 1}: {error.msg}; every line must be one JSON object"
        raise RowError(where, reason) from None
    except (ValueError, RecursionError) as error:
        reason = "a number has more than 4,300 digits" if "integer string conversion" in str(error) else str(error)
        raise RowError(where, f"not valid JSON: {reason}; fix the line") from None
    if not isinstance(row, dict):
        raise RowError(where, f'contains {kind(row)}, not an object; write {{"prompt": ..., "answer": ...}} on every line')
    return row


def kind(value: Any) -> str:
    """Names the kind of a value in words for a user, such as "a number"."""
    names = {
        type(None): "nothing",
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
        bytes: "bytes",
    }
    return names.get(type(value), f"a {type(value).__name__}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed in JSON; write null in its place")


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text} is too large for a number; write the value as text in quotes")
    return value


def _distinct_names(pairs: list[tuple[str, Any]]) -> Row:
    """Makes an object from (name, value) pairs. Raises ValueError for a repeated name, because Python would silently keep the last value."""
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f'"{max(names, key=names.count)}" occurs twice in one object; remove one of the two')
    return row


def _jsonl(path: Path, prompt_column: str | None) -> JsonLines:
    offsets, lines, at, number = [], [], 0, 0
    with path.open("rb") as file:
        if file.read(3) == b"\xef\xbb\xbf":  # a byte-order mark
            at = 3
        file.seek(at)
        for number, line in enumerate(file, start=1):
            if line.strip():
                offsets.append(at)
                lines.append(number)
            if number == 1 and line.lstrip().startswith(b"[") and not line.rstrip().endswith(b"]"):
                raise UserError(f"{path} is one JSON array; rename it to {path.with_suffix('.json')}, or write one object per line")
            at += len(line)
    return JsonLines(path, np.array(offsets, dtype=np.int64), np.array(lines, dtype=np.int64), empty=number - len(lines))


def _json(path: Path, prompt_column: str | None) -> Table:
    """Reads one JSON array of objects, which is held in memory, or JSON lines. An item that is a list becomes an object with the keys 0, 1, ..."""
    with path.open("rb") as file:
        first = next((line.lstrip(b"\xef\xbb\xbf \t") for line in file if line.strip(b"\xef\xbb\xbf \t\r\n")), b"")
    if not first.startswith(b"["):
        return _jsonl(path, prompt_column)
    try:
        found = json.loads(path.read_bytes().decode("utf-8-sig"), parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_distinct_names)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a valid JSON array: {error}; fix the file, or write one object per line") from None
    items = [{str(i): one for i, one in enumerate(item)} if isinstance(item, list) else item for item in found]
    wrong = next((number for number, item in enumerate(items, start=1) if not isinstance(item, dict)), None)
    if wrong is not None:
        raise RowError(f"{path}, item {wrong}", f"contains {kind(items[wrong - 1])}, not an object; every item must be an object")
    return JsonArray(path, tuple(items))


def _parquet(path: Path, prompt_column: str | None) -> ArrowTable:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path, memory_map=True)
    except pyarrow.ArrowException as error:
        raise UserError(f"{path} is not a readable Parquet file: {_first_line(error).rstrip('.')}; write the file again") from error
    return ArrowTable(path, _distinct(table, path), np.arange(1, table.num_rows + 1))


def _csv(path: Path, prompt_column: str | None) -> ArrowTable:
    """Reads the table of a CSV file. A column has numbers if every value is empty or a number in its usual form. All other columns, and the prompts, have text.

    The values 007, 1e5 and true are text. Empty lines are not rows. But the number of a row includes them, as in a spreadsheet. A row
    whose number of values differs from the number of columns is `lost`.
    """
    import pyarrow
    import pyarrow.compute
    import pyarrow.csv

    with path.open("rb") as start:
        if start.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise UserError(f"{path} is written in UTF-16; save it as UTF-8")
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        header = next(csv.reader(file), [])
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise UserError(f"{path}, row 1: the columns are separated by {name}, but they must be separated by commas; save the file with commas, or as JSON lines")
    lost: list[BadRow] = []

    def skipped(row: Any) -> str:
        many = f"has {row.actual_columns} values for {row.expected_columns} columns; fix the row, or quote values with commas"
        lost.append(BadRow(str(path), f"row {row.number}", None, many, str(row.text)[:TEXT]))
        return "skip"

    try:
        table = pyarrow.csv.read_csv(
            path,
            read_options=pyarrow.csv.ReadOptions(use_threads=False),  # bad rows get their numbers in one thread only
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skipped, ignore_empty_lines=False),
            convert_options=pyarrow.csv.ConvertOptions(column_types={name: pyarrow.string() for name in header}),
        )
        table = _distinct(table, path)
    except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
        if path.stat().st_size == 0:
            raise UserError(f"{path} has no rows; give a file with at least two problems") from None
        raise UserError(
            f"{path} is not a readable CSV file: {_first_line(error)}; save it as UTF-8, and put values with commas into quotes"
        ) from error
    prompts = ("prompt", "question", prompt_column)  # text, even if they hold digits only
    columns = [column if name in prompts else _numbers(column) for name, column in zip(table.column_names, table.columns, strict=True)]
    numbers = np.arange(2, table.num_rows + len(lost) + 2)  # the header is row 1
    numbers = np.setdiff1d(numbers, [int(row.place.removeprefix("row ")) for row in lost])
    filled = np.any([pyarrow.compute.not_equal(column, "").to_numpy() for column in table.columns], axis=0)  # an empty line is a row of ""
    kept = pyarrow.table(columns, names=table.column_names).filter(pyarrow.array(filled))
    return ArrowTable(path, kept, numbers[filled], tuple(lost), int((~filled).sum()))


def _numbers(column: Any) -> Any:
    """Converts a column of text to int64 or float64 if the printed numbers equal the text in the file; else returns the column unchanged.

    Empty cells become None. Two printed forms are accepted: Arrow's (1, 0.5) and Python's (1.0, 1e-05), because Python writes most tables
    of real numbers.
    """
    import pyarrow
    import pyarrow.compute

    text = pyarrow.compute.if_else(pyarrow.compute.equal(column, ""), None, column)
    for kind in (pyarrow.int64(), pyarrow.float64()):
        try:
            made = text.cast(kind)
        except pyarrow.ArrowInvalid:
            continue
        other = pyarrow.compute.fill_null(pyarrow.compute.not_equal(made.cast(pyarrow.string()), text), False)
        pairs = zip(made.filter(other).to_pylist(), text.filter(other).to_pylist(), strict=True)
        finite = bool(pyarrow.compute.all(pyarrow.compute.is_finite(made)).as_py())  # nan and inf are words
        if text.null_count < len(text) and finite and all(repr(number) == written for number, written in pairs):
            return made
    return column


def _distinct(table: Any, path: Path) -> Any:
    twice = sorted({n for n in table.column_names if table.column_names.count(n) > 1})
    if twice:
        raise UserError(f'{path} has two columns named "{twice[0]}"; rename one of them')
    return table


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
