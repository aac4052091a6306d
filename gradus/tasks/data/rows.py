"""Makes problems from the rows of a table: finds the columns of prompt and answer, checks every row and chooses the held-out rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gradus.tasks.data.files import BadRow, Row, RowError, Table, bad_row, each_row, kind
from gradus.tasks.data.final_answer import has_answer
from gradus.tasks.data.pictures import COLUMNS as PICTURES
from gradus.tasks.data.pictures import part, pictures_of, with_pictures
from gradus.types import Frozen, Key, Message, Problem, UserError, unknown
from gradus.types.media import shown, words

PROMPTS = ("prompt", "question", "messages")
ANSWERS = ("answer", "solution", "label")
PromptForm = Literal["raw", "chat"]
"""The form in which a text prompt goes to the model: raw, or as a user message in the model's chat template."""
RESERVED = ("prompts", "completions", "completion_ids", "trainer_state", "log_metric", "log_extra")  # arguments of reward functions besides the columns


@dataclass(frozen=True)
class Columns:
    """The names of two columns: the column of the prompt (text or chat), and the column of the answer (None: no answer). All other columns go to `meta`."""

    prompt: str
    answer: str | None = None


def choose_columns(row: Row, where: str, prompt: str | None = None, answer: str | None = None) -> Columns:
    """Chooses the named columns. If a column is not named, chooses the first name of PROMPTS (or of ANSWERS) that is in `row`. `row` is the table's first
    row.

    Raises UserError if a named column or a column of prompts is missing, or if a column has a RESERVED name.
    """
    for name in (prompt, answer):
        if name is not None and name not in row:
            raise unknown("column", name, row, f"Looked for it in {where}")
    for name in RESERVED:
        if name in row:
            raise UserError(f'{where}: the column name "{name}" is reserved, because reward functions have an argument with this name; rename the column')
    prompt = prompt or next((name for name in PROMPTS if name in row), None)
    if prompt is None:
        listing = ", ".join(f'"{name}"' for name in row) or "none"
        raise UserError(
            f"{where}: no column has the name prompt, question or messages; name the column of the prompts with --task.prompt_column NAME (columns: {listing})"
        )
    return Columns(prompt, answer or next((name for name in ANSWERS if name in row and name != prompt), None))


def prompt_of(row: Row, column: str, where: str, folder: Path = Path()) -> tuple[tuple[Message, ...], bool]:
    """Returns the messages of a row's prompt with its pictures, and whether the prompt is plain text (a plain text becomes one user message).

    `folder`: the folder for relative paths of pictures. Raises RowError, which names the row, for a prompt or picture that cannot be read.
    """
    messages, plain = _written(row, column, where, folder)
    given = pictures_of(row, folder, where)
    if not given and not any(isinstance(m["content"], tuple) for m in messages):
        return messages, plain
    return with_pictures(messages, given, where, column), plain


def _written(row: Row, column: str, where: str, folder: Path) -> tuple[tuple[Message, ...], bool]:
    """Returns the messages of a row's prompt. The pictures of the column `images` are not in the messages yet."""
    value = row.get(column)
    if value is None:
        raise RowError(where, "is missing, but the first row has this column; give the column to every row", column)
    if isinstance(value, str):
        if not value.strip():
            raise RowError(where, "is empty; write a prompt, or remove the row", column)
        return ({"role": "user", "content": _text(value, where)},), True
    if not isinstance(value, list):
        raise RowError(where, f"is {kind(value)}; it must be text or a list of chat messages", column)
    messages = tuple(_message(m, where, f'message {n} of "{column}"', folder) for n, m in enumerate(value, start=1))
    if not messages or (messages[-1]["role"] == "assistant" and (column != "messages" or len(messages) == 1)):
        what = "ends with the assistant's turn" if messages else "is an empty list"
        raise RowError(where, f"{what}; it must end with a message that the model answers", column)
    return messages, False


def asked(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Returns the messages without a final message of the assistant, so that an answered chat becomes a prompt."""
    return messages[:-1] if messages[-1]["role"] == "assistant" else messages


def problem_of(row: Row, columns: Columns, *, id: str, task: str, where: str, raw: bool = False, folder: Path = Path()) -> Problem:
    """Makes the problem of a row. The `meta` of the problem has every further column, and `solution` if the row has a worked solution.

    A text prompt becomes one user message; with `raw` it stays raw text, unless the row has pictures. `folder`: the folder for relative paths of pictures.

    The worked solution is the first of these that exists: the column `solution`, the text of the column `completion`, the assistant's message
    at the end of the prompt, an answer that contains `####`.
    """
    messages, plain = prompt_of(row, columns.prompt, where, folder)
    pictures = bool(shown(messages))
    answer = row.get(columns.answer) if columns.answer else None
    meta = {name: value for name, value in row.items() if name not in (columns.prompt, "answer", *(PICTURES if pictures else ()))}
    if meta.get("solution") is None:
        solution = next((text for text in _solutions(row, messages, answer) if isinstance(text, str)), None)
        meta |= {"solution": solution} if solution else {}
    if raw and plain and not pictures:
        return Problem(id=id, task=task, text=messages[0]["content"], answer=answer, meta=Frozen(meta))
    return Problem(id=id, task=task, messages=asked(messages), answer=answer, meta=Frozen(meta), plain=plain)


@dataclass(frozen=True)
class Account:
    """Describes how every row of a table is used. The counts in `parts` add up to `rows`, which includes empty lines and unreadable rows."""

    name: str  # the name of the file or the data set
    rows: int
    parts: tuple[tuple[int, str], ...]  # (number of rows, their use); parts without rows are left out
    unread: tuple[str, ...] = ()  # splits of the data set that the task does not read

    @property
    def told(self) -> str:
        """The account on one line: '12 rows = 9 to train on + 2 held out + 1 equal to an earlier row (--task.repeats keep)'."""
        unread = f"; not read: {', '.join(self.unread)}" if self.unread else ""
        rows = f"{self.rows:,} row{'s' * (self.rows != 1)}"
        return f"{self.name}: {rows} = {' + '.join(f'{count:,} {where}' for count, where in self.parts)}{unread}"


@dataclass(frozen=True, eq=False)
class RowSource:
    """A source of problems from a table: problem i is row `indices[i]`. Level and key have no effect."""

    table: Table
    columns: Columns
    name: str
    indices: np.ndarray  # int64, in the order of the file
    size: int | None
    part: str = ""  # prefix in the ids, if problems of one task come from two tables
    bad: tuple[BadRow, ...] = ()  # rows of the table that were left out
    plain: bool = False  # the prompts are text, not lists of chat messages
    form: PromptForm | None = None  # the form of text prompts; None: no form is given, so the prompts are raw
    accounts: tuple[Account, ...] = ()  # the accounts of the task's tables
    pictures: str = ""  # the hash of all pictures of the table; empty: the table has no pictures

    def in_form(self, form: PromptForm) -> RowSource:
        """Returns the source with its text prompts in `form`. Raises UserError for "raw" if the prompts are chat messages or have pictures."""
        if form == "raw" and not self.plain:
            place = self.table.where(0).rpartition(", ")[0]
            raise UserError(f"{place}: the prompts are lists of chat messages, which need a chat template; leave out --task.prompt raw, or give prompts of text")
        if form == "raw" and self.pictures:
            place = self.table.where(0).rpartition(", ")[0]
            raise UserError(f"{place}: the prompts have pictures, which need a chat template; leave out --task.prompt raw")
        return replace(self, form=form)

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        at = [int(self.indices[i]) for i in indices]
        rows, raw, folder = self.table.rows(at), self.form != "chat", folder_of(self.table)
        return [
            problem_of(row, self.columns, id=f"{self.name}/{self.part}{n}", task=self.name, where=self.table.where(n), raw=raw, folder=folder)
            for n, row in zip(at, rows, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Checked:
    """The result of one pass over a table.

    `rows`: the indices of the valid rows (int64, in order); `hashes`: a hash of each row's prompt (uint64); `answered`: the number of rows with
    an answer; `provides`: the columns that every row has; `bad`: the bad rows; `plain`: whether the prompts are text.
    """

    columns: Columns
    rows: np.ndarray
    hashes: np.ndarray
    answered: int
    provides: frozenset[str]
    bad: tuple[BadRow, ...] = ()
    plain: bool = False
    pictures: str = ""  # the hash of all pictures with their rows; empty: there are no pictures


def source_of(table: Table, checked: Checked, name: str, rows: np.ndarray, **more: Any) -> RowSource:
    """Makes a source of some rows of a checked table."""
    return RowSource(table, checked.columns, name, rows, len(rows), plain=checked.plain, pictures=checked.pictures, **more)


def check_rows(
    table: Table,
    prompt: str | None = None,
    answer: str | None = None,
    *,
    bad_rows: float = 0.0,
    refused: Callable[[Problem], str | None] | None = None,
) -> Checked:
    """Reads every row once and leaves bad rows out. `bad_rows`: the share of rows that may be bad.

    `refused`: a function that returns the reason why a verifier cannot use a problem's answer, and None if the verifier can use it. Raises UserError for more
    bad rows than allowed. The error names the file and line of the first bad row and, if `bad_rows` is above 0, the number of bad rows.
    """
    if not 0 <= bad_rows <= 1:
        raise UserError(f"--task.bad_rows is {bad_rows}; give a number from 0 to 1, the largest share of bad rows")
    if table.lost and bad_rows == 0:
        raise RowError(f"{table.lost[0].file}, {table.lost[0].place}", table.lost[0].reason)
    columns, form, answered, common, bad, seen = None, True, 0, None, list(table.lost), 0
    rows: list[int] = []
    hashes: list[int] = []
    folder, pictures = folder_of(table), hashlib.blake2b(digest_size=16)
    for index, row in each_row(table):
        try:
            if isinstance(row, RowError):
                raise row
            columns = columns or choose_columns(row, table.where(index), prompt, answer)
            problem = problem_of(row, columns, id="", task="", where=table.where(index), folder=folder)
            form = problem.plain if not rows else form
            _check_form(problem, columns, form, table.where(index))
            _check_answer(row, columns, table.where(index))
            if refused is not None and (reason := refused(problem)) is not None:
                raise RowError(table.where(index), f"cannot be used: {reason}", columns.answer)
        except RowError as error:
            if bad_rows == 0:
                raise
            bad.append(bad_row(table, index, error))
            columns = columns if rows else None  # the first valid row decides
            continue
        rows.append(index)
        hashes.append(content_hash(problem.messages))
        seen += len(problem.media)
        pictures.update("".join(f"{index} {media.digest}\n" for media in problem.media).encode())
        answered += has_answer(problem.answer)
        brought = {name for name, value in problem.meta.items() if value is not None and name != columns.answer}
        brought |= {"images"} if problem.media else set()
        common = brought if common is None else common & brought
    total = len(table) + len(table.lost)
    if columns is None or not rows or len(bad) > bad_rows * total:
        many = f"{len(bad)} of {total} rows are bad, but --task.bad_rows allows a share of {bad_rows:g}" if rows else "no row can be used"
        field = f'"{bad[0].field}" ' if bad[0].field else ""
        raise UserError(f"{bad[0].file}: {many}; the first bad row is {bad[0].place}: {field}{bad[0].reason}")
    told = pictures.hexdigest() if seen else ""
    return Checked(columns, np.array(rows, np.int64), np.array(hashes, np.uint64), answered, frozenset(common or ()), tuple(bad), form, told)


def _check_form(problem: Problem, columns: Columns, plain: bool, where: str) -> None:
    """Raises RowError unless the prompt has the form (text or chat) of the first valid row."""
    if problem.plain != plain:
        names = ("text", "a list of messages")
        raise RowError(where, f"is {names[plain]}, but {names[not plain]} in the first row; use one form in all rows", columns.prompt)


def content_hash(messages: Sequence[Message]) -> int:
    """Computes a 64-bit hash of the prompt, the same on every machine.

    The hash ignores case and spacing, so that variants of one prompt go to the same split. Prompts with equal text but different pictures have
    different hashes.
    """
    text = json.dumps([[m["role"], " ".join(words(m).split()).casefold(), *(media.digest for media in shown([m]))] for m in messages])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def hold_out(hashes: np.ndarray, share: float = 0.1, most: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Returns (training rows, held-out rows), int64 in order. The prompts with the smallest hashes are held out.

    The number of held-out prompts is the `share` of the distinct prompts, at least 1 and at most `most`. Either all rows of a prompt are in training,
    or all are held out.
    """
    distinct = np.unique(hashes)
    count = min(most, max(1, round(share * len(distinct))))
    held = np.isin(hashes, distinct[:count])
    return np.flatnonzero(~held), np.flatnonzero(held)


def _check_answer(row: Row, columns: Columns, where: str) -> None:
    """Raises RowError if a later row has an answer column that the first row lacks, because the column would be ignored silently."""
    late = next((n for n in ANSWERS if columns.answer is None and n != columns.prompt and row.get(n) is not None), None)
    if late:
        raise RowError(where, f'has "{late}", but the first row lacks it; give every row this column, with the value null if there is no answer')


def folder_of(table: Table) -> Path:
    """Returns the folder for relative paths of pictures: the folder of the table's file; if the table has no file, the current folder."""
    path = getattr(table, "path", None)
    return path.parent if isinstance(path, Path) else Path()


def _message(value: Any, where: str, which: str, folder: Path) -> Message:
    if not isinstance(value, Mapping):
        raise RowError(where, f'{which} is {kind(value)}; it must be an object with "role" and "content"')
    content: Any = value.get("content")
    if isinstance(content, list) and isinstance(value.get("role"), str):
        parts = tuple(part(one, folder, where, which) for one in content if one is not None)
        _text("".join(p.get("text", "") for p in parts), where)
        if all(p["type"] == "text" for p in parts):  # a picture alone makes parts of a text
            return {**{n: v for n, v in value.items() if v is not None}, "content": "".join(p["text"] for p in parts)}
        return {**{n: v for n, v in value.items() if v is not None}, "content": parts}
    for name in ("role", "content"):
        if not isinstance(value.get(name), str):
            given = f"is {kind(value[name])}" if value.get(name) is not None else "is missing"
            raise RowError(where, f'{which}: "{name}" {given}; it must be text')
        _text(value[name], where)
    return {name: field for name, field in value.items() if field is not None}  # Arrow adds the fields of other messages as null


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RowError(where, "contains half of a surrogate pair, which is not a character; fix the text") from None
    return value


def _solutions(row: Row, messages: tuple[Message, ...], answer: Any) -> list[Any]:
    completion = row.get("completion")
    if isinstance(completion, list) and completion and isinstance(completion[-1], Mapping):
        completion = completion[-1].get("content")
    turn = words(messages[-1]) if messages[-1]["role"] == "assistant" else None
    return [completion, turn, answer if isinstance(answer, str) and "####" in answer else None]
