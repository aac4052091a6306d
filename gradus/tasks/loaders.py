"""Tasks named by a user: a name, a file of problems, `file.py:task`, a data set of the package `datasets`, or a mixture of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradus.tasks import final_answer
from gradus.tasks.files import FORMATS, Row, Table, read_table
from gradus.tasks.mathematics import mathematics
from gradus.tasks.mixture import mix_tasks, split_weights
from gradus.tasks.python_file import load_python_task
from gradus.tasks.rows import Checked, RowSource, check_rows, hold_out
from gradus.types import UserError, unknown
from gradus.types.parts import Task, Verify

_FILE = re.compile(r".*\.(jsonl|ndjson|json|parquet|csv)", re.IGNORECASE)
_DATASET = re.compile(r"[\w.-]+/[\w.-]+(/[\w.-]+)?")
VERIFIERS: dict[str, Verify] = {"final_answer": final_answer.verify, "mathematics": mathematics}


def load_task(spec: str, named: Mapping[str, Callable[..., Task]], **options: Any) -> Task:
    """The task that `spec` means, first match: a name in `named`, file.py:task, a file or folder, a mixture a:3,b:1, a data set owner/name.

    `options` go to the maker of a name or a user's function, or to `load_task_file` (prompt_column, answer_column, held_out, name, verify).
    Raises UserError for what is none of these, suggesting near names.
    """
    if not spec.strip():
        raise UserError("the task has no name; give --task a name, a file or file.py:task")
    if spec in named:
        return named[spec](**options)
    if re.fullmatch(r".*\.py:[^,]*", spec):
        return load_python_task(spec, **options)
    if Path(spec).exists() or (_FILE.fullmatch(spec) and "," not in spec):
        return load_task_file(spec, **options)
    weights = split_weights(spec)
    if weights:
        if options:
            raise UserError(f"the mixture {spec} takes no options ({', '.join(options)}); put the tasks into a file.py:task to set them")
        return mix_tasks([(part, load_task(part, named), weight) for part, weight in weights])
    if _DATASET.fullmatch(spec):
        return load_task_file(spec, **options)
    remedy = f"A task is also a file ({FORMATS}), file.py:task, a data set owner/name, or a mixture a:3,b:1"
    raise unknown("task", spec, named, remedy)


def load_task_file(
    path: str | Path,
    *,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    held_out: str | Path | None = None,
    name: str | None = None,
    verify: str = "final_answer",
) -> Task:
    """The task of a file of problems (JSON lines, Parquet, CSV) or of a data set (a name owner/name[/configuration], or a saved folder).

    A row has a prompt (`prompt`, `question` or `messages`: text, or a list of chat messages; another with `prompt_column`), perhaps an
    answer (`answer`, `solution` or `label`; another with `answer_column`), and any further columns, which problems carry in `meta` and
    reward functions get as keywords. Where there are answers, a completion is right if its final answer is the row's: as a number or as text
    (`verify="final_answer"`), or as mathematics (`verify="mathematics"`: LaTeX, fractions, sets, intervals, equations, matrices).

    Held out is the file `held_out`, for a data set else its split validation or test, else a tenth of the distinct prompts, at least 1
    and at most 256, chosen by a hash of their content. No prompt that is held out is trained on.
    Raises UserError for a source that cannot be read and for the first row that is not sound, with file and line.
    """
    if verify not in VERIFIERS:
        raise unknown("verifier", verify, VERIFIERS, "Give one with --task.verify")
    table, beside = _open(str(path), prompt_column)
    if held_out is not None:
        beside, _ = _open(str(held_out), prompt_column)
    name = name or _name(str(path))
    checked = check_rows(table, prompt_column, answer_column)
    if beside is None:
        training, kept = hold_out(checked.hashes)
        if len(training) == 0:
            raise UserError(f"{path} holds one prompt only; give at least two, or held-out problems of their own with held_out")
        evaluation = RowSource(table, checked.columns, name, kept, len(kept))
        split = f"{len(kept)} prompts held out by content"
    else:
        other = check_rows(beside, checked.columns.prompt, checked.columns.answer)
        training, split = _apart(checked, other, str(path), str(held_out or "its held-out split"))
        evaluation = RowSource(beside, other.columns, name, np.arange(len(beside)), len(beside), part="held_out/")
    return Task(
        name=name,
        source=RowSource(table, checked.columns, name, training, len(training)),
        held_out=evaluation,
        verify=VERIFIERS[verify] if checked.answered else None,
        provides=checked.provides,
        about=f"{len(training)} problems of {path}; {split}",
    )


@dataclass(frozen=True, eq=False)
class DatasetTable:
    """The rows of a data set of the package `datasets`."""

    name: str
    dataset: Any

    def __len__(self) -> int:
        return len(self.dataset)

    def rows(self, indices: Sequence[int]) -> list[Row]:
        columns = self.dataset[list(indices)]
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def where(self, index: int) -> str:
        return f"{self.name}, row {index}"


def _open(path: str, prompt_column: str | None) -> tuple[Table, Table | None]:
    """A table, and the held-out one that comes with it."""
    folder = Path(path)
    saved = folder.is_dir() and any((folder / f).is_file() for f in ("state.json", "dataset_dict.json"))
    if saved or (not folder.exists() and not _FILE.fullmatch(path) and _DATASET.fullmatch(path)):
        return _open_dataset(path, saved)
    return read_table(folder, prompt_column), None


def _open_dataset(path: str, saved: bool) -> tuple[Table, Table | None]:
    try:
        import datasets
    except ImportError:
        raise UserError(f'reading the data set {path} needs the package datasets: pip install "gradus[datasets]"') from None
    try:
        found = datasets.load_from_disk(path) if saved else _from_hub(datasets, path)
    except Exception as error:  # the package raises errors of many libraries: network, file system, parsers
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        remedy = "write it anew with save_to_disk" if saved else "check the name and the network, or give a file"
        raise UserError(f"the data set {path} cannot be loaded: {reason}; {remedy}") from error
    splits = dict(found) if isinstance(found, Mapping) else {"train": found}
    train = "train" if "train" in splits else next(iter(splits))
    if train != "train" and len(splits) > 1:
        raise UserError(f"the data set {path} has no split train (it has {', '.join(splits)}); save the one to train on with save_to_disk")
    held = next((s for s in ("validation", "test") if s in splits and s != train), None)
    tables = [DatasetTable(f"{path} ({s})", splits[s]) for s in (train, held) if s is not None]
    empty = next((t for t in tables if not len(t)), None)
    if empty:
        raise UserError(f"{empty.name} holds no rows; give a data set with problems")
    return tables[0], tables[1] if held else None


def _from_hub(datasets: Any, path: str) -> Any:
    owner, name, *configuration = path.split("/")
    return datasets.load_dataset(f"{owner}/{name}", *configuration)


def _apart(checked: Checked, other: Checked, path: str, held_out: str) -> tuple[np.ndarray, str]:
    """The rows whose prompts are not held out, and a clause that says what was done."""
    training = np.flatnonzero(~np.isin(checked.hashes, other.hashes))
    if len(training) == 0:
        raise UserError(f"every prompt of {path} is also in {held_out}; give held-out problems that are not trained on")
    dropped = len(checked.hashes) - len(training)
    split = f"{len(other.hashes)} held out in {held_out}"
    return training, split + (f"; {dropped} rows left out because they are held out too" if dropped else "")


def _name(path: str) -> str:
    """A task's name: a file's stem, a folder's or a data set's last name."""
    return Path(path).stem if _FILE.fullmatch(path) else Path(path).name
