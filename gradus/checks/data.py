"""Checks a task's data before a run: every row of its files, and some problems that are drawn from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradus.checks.findings import Finding, counted
from gradus.recipe.compatibility import check_problems
from gradus.runtime.user_code import asked
from gradus.study.intervals import few
from gradus.tasks.data.files import BadRow, Table, each_row
from gradus.tasks.data.in_memory import InMemory
from gradus.tasks.data.rows import Account, Checked, check_rows
from gradus.types import Key, Problem, UserError
from gradus.types.parts import Source, Task
from gradus.types.reads import pictures_of, sources_of
from gradus.types.returned import check_drawn


def of_rows(
    tables: Sequence[Table], prompt: str | None, answer: str | None, allowed: float, refused: Callable[[Problem], str | None] | None = None
) -> Iterator[tuple[Finding, tuple[BadRow, ...]]]:
    """Checks the tables of a file and of its held-out file, and yields each finding with its bad rows.

    `allowed`: the share of rows that may be bad. `refused`: a function that returns the reason why the verifier cannot use a problem's answer, or None if the
    verifier can use it.
    """
    for table in tables:
        checked = check_rows(table, prompt, answer, bad_rows=1.0, refused=refused)
        total, place = len(table) + len(table.lost), table.where(0).rpartition(", ")[0] if len(table) else str(getattr(table, "path", ""))
        bad = len(checked.bad)
        if not bad:
            yield Finding("data", "ok", f"{place}: {counted(total, 'row')}, {checked.answered:,} with an answer"), ()
        else:
            share = bad / total
            remedy = f"fix them, or leave them out with --task.bad_rows {_up(share)}" if share > allowed else "they are left out"
            says = f"{place}: {bad} of {counted(total, 'row')} bad"
            yield Finding("data", "wrong" if share > allowed else "warning", says, remedy, tuple(map(told, checked.bad))), checked.bad
        yield from ((finding, ()) for finding in _oddities(table, checked, place))
        prompt, answer = checked.columns.prompt, checked.columns.answer


def _up(share: float) -> str:
    """Rounds a share up to two significant digits."""
    digits = 2 - int(np.floor(np.log10(share))) - 1
    return f"{min(1.0, np.ceil(share * 10**digits) / 10**digits):g}"


def told(row: BadRow) -> str:
    """Describes a bad row in one line: file and line, field, reason."""
    field = f'"{row.field}" ' if row.field else ""
    return f"{row.place}: {field}{row.reason}"


def _oddities(table: Table, checked: Checked, place: str) -> Iterator[Finding]:
    """Yields warnings for prompts and ids that occur in several rows, and for rows without an answer if other rows have answers."""
    prompts: dict[int, list[tuple[int, str]]] = {}
    names: dict[str, list[int]] = {}
    distinct, counts = np.unique(checked.hashes, return_counts=True)
    repeated = set(distinct[counts > 1].tolist())
    hashes = dict(zip(checked.rows.tolist(), checked.hashes.tolist(), strict=True))
    for index, row in each_row(table):
        if index not in hashes or not isinstance(row, dict):
            continue
        if hashes[index] in repeated:
            prompts.setdefault(hashes[index], []).append((index, json.dumps(row.get(str(checked.columns.answer)), default=str)))
        if isinstance(row.get("id"), str | int):
            names.setdefault(str(row["id"]), []).append(index)

    def lines(rows: Sequence[int]) -> str:
        return ", ".join(table.where(i).rpartition(", ")[2] for i in rows[:4]) + (" ..." if len(rows) > 4 else "")

    quarrels = [[i for i, _ in rows] for rows in prompts.values() if len({answer for _, answer in rows}) > 1]
    if quarrels:
        says = f"{place}: {counted(len(quarrels), 'prompt')} in several rows with different answers"
        yield Finding("data", "warning", says, "keep the row whose answer is right, or give one row a list of answers", tuple(map(lines, quarrels)))
    if again := [[i for i, _ in rows] for rows in prompts.values() if [i for i, _ in rows] not in quarrels]:
        says = f"{place}: {counted(len(again), 'prompt')} in several rows with the same answer, each row a separate problem unless it equals an earlier row"
        yield Finding("data", "warning", says, "drop all but one row of each, unless this is intended", tuple(map(lines, again)))
    if twice := [rows for rows in names.values() if len(rows) > 1]:
        says = f'{place}: {counted(len(twice), "value")} of the column "id" in several rows'
        yield Finding("data", "warning", says, 'Gradus counts rows by itself; make "id" distinct if your reward reads it', tuple(map(lines, twice)))
    if 0 < checked.answered < len(checked.rows):
        says = f"{place}: {len(checked.rows) - checked.answered:,} of {counted(len(checked.rows), 'row')} without an answer, so the verifier does not apply to them"
        yield Finding("data", "warning", says, "give them an answer, drop them, or judge with --reward FILE.py:FUNCTION")


def quarantine(path: Path, rows: Sequence[BadRow]) -> None:
    """Writes bad rows as JSON lines: file, line, field, reason, text. Raises UserError if the file exists or is not named .jsonl."""
    from gradus.lab.atomic_files import write

    if path.suffix != ".jsonl":
        raise UserError(f'--quarantine is "{path}"; name a file that ends in .jsonl')
    if path.exists():
        raise UserError(f"{path} exists already; name another file with --quarantine, because Gradus does not overwrite files")
    try:
        write(path, "".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in rows).encode())
    except OSError as error:
        raise UserError(f"cannot write the bad rows to {path}: {error.strerror or error}; name another file with --quarantine") from error


def bad_rows_of(task: Task) -> tuple[BadRow, ...]:
    """Returns the bad rows of all files of the task, which were left out when the task was loaded."""
    return tuple(dict.fromkeys(row for source in sources_of(task) for row in getattr(source, "bad", ())))


def accounts_of(task: Task) -> list[Account]:
    """Returns, for each file of a task, the numbers of rows that are used in training, held out or left out."""
    return list(dict.fromkeys(account for source in sources_of(task) for account in getattr(source, "accounts", ())))


def check_same_pictures(task: Task, folder: Any) -> None:
    """Raises UserError if the pictures of the data differ from the pictures at the start of the run in `folder`."""
    due, now = folder.provenance().get("pictures", ""), pictures_of(task)
    if due and due != now:
        raise UserError(
            f"the pictures of task {task.name} differ from the pictures at the start of the run {folder.path}, so the run cannot continue; "
            "restore the old picture files, or start a new run"
        )


def of_task(task: Task) -> Iterator[Finding]:
    """Checks that problems can be drawn for training and for evaluation, and reports how the rows of the task's files are used.

    Raises UserError if problems cannot be drawn.
    """
    check_problems(task)
    yield from (Finding("data", "ok", account.told) for account in accounts_of(task))
    sizes = ["without end" if s.size is None else f"{s.size:,}" for s in (task.source, task.held_out)]
    yield Finding("task", "ok", f"{task.name}: problems for training {sizes[0]}, for evaluation {sizes[1]}")


def of_held_out(task: Task, study: Any) -> Iterator[Finding]:
    """Yields a warning if the evaluation has fewer than 30 problems. `study`: the recipe's study; None if there is no evaluation."""
    asked_for = getattr(study, "problems", None)
    if asked_for is None:
        return
    held = task.held_out.size
    if warning := few(asked_for if held is None else min(asked_for, held)):
        more = (
            "raise --study.problems"
            if held is None or asked_for < held
            else "add problems, hold out a larger share with --task.held_out 0.2, or name a file of problems with --task.held_out FILE"
        )
        yield Finding("data", "warning", warning, more)


def some_problems(task: Task, most: int) -> list[Problem]:
    """Draws at most `most` problems for training and at most `most` for evaluation. The problems are spread evenly over each source."""
    return [p for source in (task.source, task.held_out) for p in _spread(source, task.level, most)]


def _spread(source: Source, level: float | None, most: int) -> list[Problem]:
    count = most if source.size is None else min(most, source.size)
    end = count if source.size is None else source.size
    indices = [i * end // count for i in range(count)]
    with asked(source, "draw"):
        drawn = source.draw(indices, level, Key().fold("check"))
    check_drawn(source, drawn, indices)
    return drawn


def files_of(
    spec: str | InMemory, options: Mapping[str, str], named: Mapping[str, Any]
) -> list[tuple[str | InMemory, Mapping[str, str]]]:
    """Returns the files, data sets and rows in memory of a task, each with the options for reading it."""
    from gradus.tasks.data.loaders import is_data
    from gradus.tasks.data.mixture import split_weights

    if isinstance(spec, InMemory) or is_data(spec, named):
        return [(spec, options)]
    if spec in named or ".py:" in spec:
        return []
    return [(part, {}) for part, _ in split_weights(spec) if is_data(part, named)]
