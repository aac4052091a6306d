"""All rollouts of a run on the disk. Each step has one Arrow file. Every hundred steps, counted from 0, are merged into one Parquet file.

The files are `rollouts/step-000123.arrow` and `rollouts/steps-000000-000099.parquet`. Both kinds of files have one row per step (see `gradus.lab.arrow`). If
both files contain a step, the Parquet file is complete, and the Arrow file is left from an interrupted merge. The arrays of media are in other files
(`gradus.lab.seen`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradus.lab import arrow, seen
from gradus.lab.atomic_files import PARTIAL, aside, remove, sync, write
from gradus.types import Group, UserError

if TYPE_CHECKING:
    import pyarrow as pa

FOLDED = 100
"""Steps in one Parquet file."""

_ONE = re.compile(r"step-(\d{6,})\.arrow")
_MANY = re.compile(r"steps-(\d{6,})-\d{6,}\.parquet")


def append(folder: Path, step: int, groups: Sequence[Group]) -> None:
    """Stores the rollouts of a step, and merges a hundred steps if this step completes them. Equal groups give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    _store(folder, step, groups)
    if step % FOLDED == FOLDED - 1:
        _fold(folder, _first(step))


def scan(folder: Path, wanted: Collection[int] | None = None) -> Iterator[tuple[int, list[Group]]]:
    """Yields (step, groups) in the order of the steps, with one step in memory at a time. `wanted` None means all steps.

    Raises: UserError for a broken file.
    """
    ones, folds = _files(folder)
    for start in sorted({_first(step) for step in (*ones, *folds)}):
        if start in folds:
            yield from _scan_fold(folds[start], wanted)
            continue
        for step in sorted(step for step in ones if _first(step) == start):
            if wanted is None or step in wanted:
                yield from arrow.decode(_open(ones[step]), _media(ones[step], step))


def read(folder: Path, steps: Collection[int] | None = None) -> list[tuple[int, Group]]:
    """Yields (step, group) for every group of the given steps (None: all steps). Raises: UserError for a broken file."""
    return [(step, group) for step, groups in scan(folder, steps) for group in groups]


def tables(folder: Path, wanted: Collection[int], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yields the rows of the wanted steps as tables of one row, in the order of the steps. The function `tables` is for callers that need few columns.

    Args: columns: paths as in Parquet; a path that a file lacks is skipped. An Arrow file always gives all its fields.
    Raises: UserError for a broken file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    ones, folds = _files(folder)
    for start in sorted({_first(step) for step in (*ones, *folds)}):
        if start not in folds:
            yield from (_open(ones[step]) for step in sorted(ones) if _first(step) == start and step in wanted)
            continue
        try:
            with pq.ParquetFile(folds[start]) as file:
                for row, step in enumerate(file.read(columns=["step"]).column("step").to_pylist()):
                    if step in wanted:
                        yield file.read_row_group(row, columns=list(columns))
        except (pa.ArrowInvalid, OSError) as error:
            raise _unreadable(folds[start], error) from error


def stored(folder: Path) -> list[int]:
    """Returns the steps with stored rollouts, in rising order."""
    ones, folds = _files(folder)
    return sorted({*ones, *(step for path in folds.values() for step in _steps(path))})


def cut_back(folder: Path, step: int) -> None:
    """Deletes the rollouts of `step` and of all later steps.

    Then the files are the same as in a run that stopped before `step`.

    If a call is interrupted, it can be made again.
    """
    if not folder.is_dir():
        return
    for path in folder.glob(PARTIAL + "*"):
        path.unlink()
    ones, folds = _files(folder)
    for start, path in folds.items():
        if start < step < start + FOLDED:
            for number, groups in _scan_fold(path, range(start, step)):
                _store(folder, number, groups)
        if start + FOLDED > step:
            path.unlink()
    whole = {start for start in folds if start + FOLDED <= step}
    seen.cut_back(folder, step, FOLDED, whole.__contains__)
    for number, path in ones.items():
        folded = _first(number) in folds and _first(number) + FOLDED <= step
        if number >= step or folded:
            remove(path)
    for start in sorted({_first(number) for number in _files(folder)[0]}):
        if start + FOLDED <= step:
            _fold(folder, start)


def set_aside(folder: Path, before: int) -> list[str]:
    """Renames unreadable files of steps below `before`, so that they no longer count as rollouts. Returns a sentence for each file.

    To test a file of one step, reads the whole file. To test a file of a hundred steps, reads only its column of steps.
    """
    ones, folds = _files(folder)
    told = []
    for number, path in sorted([*ones.items(), *folds.items()]):
        fault = _fault(path, number) if number < before else ""
        if fault:
            told.append(f"{fault}; the broken file is kept as {aside(path)}")
    return told


def _fault(path: Path, number: int) -> str:
    """Returns the fault of the file of step `number`, or of the hundred steps from `number` on; '' if the file is complete."""
    try:
        one = _ONE.fullmatch(path.name) is not None
        steps = [step for step, _ in arrow.decode(_open(path), _media(path, number))] if one else _steps(path)
    except UserError as error:
        return str(error).partition(": delete")[0]
    except Exception as error:  # broken bytes can raise any error in a reader
        return f"the rollouts in {path} cannot be read ({type(error).__name__}: {error})"
    right = steps == [number] if one else {_first(step) for step in steps} == {number}
    return "" if right else f"the rollouts in {path} belong to other steps: {steps!s:.60}"


def settle(folder: Path) -> None:
    """Flushes the appended files to the disk."""
    seen.settle(folder)
    for path in [*_files(folder)[0].values(), *([folder] if folder.is_dir() else [])]:
        sync(path)


def _first(step: int) -> int:
    """Returns the first step of the merged hundred that contains this step."""
    return step // FOLDED * FOLDED


def _files(folder: Path) -> tuple[dict[int, Path], dict[int, Path]]:
    """Returns two mappings: from a step to its Arrow file, and from a first step to its Parquet file."""
    ones: dict[int, Path] = {}
    folds: dict[int, Path] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if match := _ONE.fullmatch(path.name):
            ones[int(match[1])] = path
        elif match := _MANY.fullmatch(path.name):
            folds[int(match[1])] = path
    return ones, folds


def _store(folder: Path, step: int, groups: Sequence[Group]) -> None:
    """Writes the rollouts of a step. The arrays of media are written first, so a step is complete if its Arrow file exists."""
    seen.store(folder, step, arrow.media(groups))
    _write(folder, step, arrow.encode(step, groups))


def _media(path: Path, step: int) -> seen.Store:
    """Returns the arrays of the steps of a file: `step` alone, or the hundred steps from `step` on."""
    one = seen.of_step(path.parent, step)
    return seen.Store([one] if _ONE.fullmatch(path.name) else [seen.of_steps(path.parent, step, FOLDED)])


def _write(folder: Path, step: int, table: pa.Table) -> None:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)) as writer:
        writer.write_table(table)
    write(folder / f"step-{step:06d}.arrow", sink.getvalue(), synced=False)


def _fold(folder: Path, start: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ones = {step: path for step, path in sorted(_files(folder)[0].items()) if start <= step < start + FOLDED}
    target = folder / f"steps-{start:06d}-{start + FOLDED - 1:06d}.parquet"
    partial = folder / (PARTIAL + target.name)
    fields = {field.name: field for path in ones.values() for field in _schema(path)}
    schema = pa.schema(fields.values())  # some steps have more columns: the auxiliary groups, the logged columns
    # no dictionary: it would merge floats that are equal but have different bytes
    with pq.ParquetWriter(partial, schema, compression="zstd", use_dictionary=False) as writer:
        for path in ones.values():  # one row group per step
            table = _open(path)
            absent = [field for field in schema if field.name not in table.column_names]
            for field in absent:
                table = table.append_column(field, pa.nulls(table.num_rows, field.type))
            writer.write_table(table.select(schema.names))
    sync(partial)
    seen.merge(folder, start, FOLDED)  # before the Parquet file, because a Parquet file counts as complete
    partial.replace(target)
    sync(folder)
    for step, path in ones.items():
        path.unlink()
        seen.of_step(folder, step).unlink(missing_ok=True)


def _schema(path: Path) -> pa.Schema:
    import pyarrow as pa

    try:
        with pa.OSFile(str(path)) as file:
            return pa.ipc.open_file(file).schema
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _open(path: Path) -> pa.Table:
    import pyarrow as pa

    try:
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        table.validate(full=True)
        return table
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _scan_fold(path: Path, wanted: Collection[int] | None) -> Iterator[tuple[int, list[Group]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    match = _MANY.fullmatch(path.name)
    take = _media(path, int(match[1]) if match else 0)
    try:
        with pq.ParquetFile(path) as file:
            for row, step in enumerate(file.read(columns=["step"]).column("step").to_pylist()):
                if wanted is None or step in wanted:
                    yield from arrow.decode(file.read_row_group(row), take)
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from error


def _steps(path: Path) -> list[int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, columns=["step"]).column("step").to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(f"the rollouts in {path} cannot be read ({str(error).splitlines()[0]}): delete the file to continue without them")
