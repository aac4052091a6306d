"""Loads the task that a user names.

The name is a known task, a file of problems, `file.py:task`, a data set of the package `datasets`, or a mixture of these.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gradus.runtime import hub
from gradus.runtime.user_code import load_object
from gradus.sandbox import Isolation, isolation_named
from gradus.tasks.code.unit_tests import UnitTests
from gradus.tasks.code.unit_tests import refused as unusable
from gradus.tasks.data import final_answer
from gradus.tasks.data.files import FORMATS, BadRow, Row, Table, read_table
from gradus.tasks.data.in_memory import InMemory
from gradus.tasks.data.mixture import mix_tasks, split_weights
from gradus.tasks.data.python_file import load_python_task
from gradus.tasks.data.rows import Checked, PromptForm, RowSource, check_rows, source_of
from gradus.tasks.data.splits import Split, by_content
from gradus.tasks.data.splits import beside as split_beside
from gradus.tasks.formats.format import Format, Formatted
from gradus.tasks.formats.known import format_named, format_of_data_set
from gradus.tasks.formats.verifiers import choice, expression, roles, short_answer
from gradus.tasks.maths.mathematics import mathematics
from gradus.types import Problem, UserError, unknown
from gradus.types.errors import nearest
from gradus.types.parts import Task, Verify

_FILE = re.compile(r".*\.(jsonl|ndjson|json|parquet|csv)", re.IGNORECASE)
_PYTHON = re.compile(r".*\.py:[^,]*")
_WORD = re.compile(r"[\w-]+")
_DATASET = re.compile(r"[\w.-]+/[\w.-]+(/[\w.-]+)?")
VERIFIERS: dict[str, Verify] = {
    "final_answer": final_answer.verify,
    "mathematics": mathematics,
    "unit_tests": UnitTests(),
    "unit_tests_share": UnitTests(share=True),
    "choice": choice,
    "short_answer": short_answer,
    "expression": expression,
    "roles": roles,
}


def load_task(spec: str | InMemory, named: Mapping[str, Callable[..., Task]], **options: Any) -> Task:
    """Loads the task that `spec` names.

    The forms are tried in this order: a name in `named`, file.py:task, a file or folder, a mixture a:3,b:1, a data set owner/name.
    `options` are passed to the function of the named task, to the user's function, or to `load_task_file` (prompt, format, prompt_column, answer_column,
    held_out, name, verify, bad_rows, isolation, repeats). A mixture accepts only the option `prompt`.
    Raises UserError, with similar names, if no form matches.
    """
    if isinstance(spec, InMemory):
        return load_task_file(spec, **options)
    if not spec.strip():
        raise UserError("the task has no name; give a name, a file or FILE.py:NAME with --task")
    if spec in named:
        return named[spec](**options)
    if is_python(spec):
        return load_python_task(spec, **options)
    if is_data(spec, named):
        return load_task_file(spec, **options)
    weights = split_weights(spec)
    if weights:
        form = options.pop("prompt", None)
        if options:
            raise UserError(f"the mixture {spec} does not accept options ({', '.join(options)}); write a task with options into a file, and give FILE.py:NAME")
        mixture = mix_tasks([(part, load_task(part, named), weight) for part, weight in weights])
        return mixture if form is None else prompted(mixture, form)
    remedy = f"A task is also a file ({FORMATS}), file.py:task, a data set owner/name, or a mixture a:3,b:1"
    if _WORD.fullmatch(spec) and not nearest(spec, named):
        remedy += f". Save a data set of the Hugging Face Hub first: {hub.data_set(spec)}"
    raise unknown("task", spec, named, remedy)


def prompted(task: Task, form: PromptForm) -> Task:
    """Returns the task with the text prompts of its data in `form`, "raw" or "chat".

    Raises UserError if the task's prompts do not come from data, or if the prompts cannot be raw.
    """
    if not all(hasattr(source, "in_form") for source in (task.source, task.held_out)):
        raise UserError(f"--task.prompt is only for prompts of a file or a data set, but task {task.name} writes its prompts itself; leave --task.prompt out")
    return replace(task, source=task.source.in_form(form), held_out=task.held_out.in_form(form))  # type: ignore[attr-defined]


def is_python(spec: str) -> bool:
    """Returns whether `spec` is FILE.py:NAME. A text with a comma is a mixture, unless the part before its last colon is a file."""
    return bool(_PYTHON.fullmatch(spec)) and ("," not in spec or os.path.isfile(spec.rpartition(":")[0]))


def is_data(spec: str | InMemory, named: Collection[str]) -> bool:
    """Returns whether `spec` is rows in memory, or names a file of problems, a saved folder or a data set. Raises UserError for a bad weight."""
    if isinstance(spec, InMemory):
        return True
    if spec in named or is_python(spec):
        return False
    if os.path.exists(spec) or (_FILE.fullmatch(spec) and "," not in spec):
        return True
    return not split_weights(spec) and bool(_DATASET.fullmatch(spec))


def options_of(spec: str | InMemory, named: Mapping[str, Callable[..., Task]]) -> dict[str, inspect.Parameter]:
    """Returns the options of a task by name: the parameters of the named task's function, of the user's function, or of `load_task_file`.

    Raises UserError if the user's file cannot be loaded.
    """
    if isinstance(spec, str) and is_python(spec) and spec not in named:
        maker = load_object(spec, "task")
        if not inspect.isroutine(maker):  # a Task, or a wrong type
            return {}
    else:
        maker = named.get(spec, load_task_file) if isinstance(spec, str) else load_task_file
    try:
        known = dict(inspect.signature(maker, eval_str=True).parameters)
    except Exception:  # a user's annotations may use names that only a type checker sees
        known = dict(inspect.signature(maker).parameters)
    if maker is load_task_file:
        known.pop("path")  # the name of the task is the path
    return known


def load_task_file(
    path: str | Path | InMemory,
    *,
    prompt: PromptForm | None = None,
    format: str | None = None,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    held_out: str | Path | float | None = None,
    name: str | None = None,
    verify: str | None = None,
    bad_rows: float = 0.0,
    isolation: str = "bubblewrap",
    repeats: Literal["drop", "keep"] = "drop",
) -> Task:
    """Loads the task of a file of problems (JSON lines, a JSON array, Parquet, CSV), a data set (owner/name[/configuration], a saved folder) or rows in memory.

    Each row has a prompt (text or a list of chat messages) in the column `prompt_column` (None: the first of `prompt`, `question` and `messages`). A
    row may have an answer in the column `answer_column` (None: the first of `answer`, `solution` and `label`). A problem keeps all other columns in
    `meta`; reward functions get these columns as keyword arguments. `name`: the task's name; None: the last part of the path.

    `format` names the format of a published data set (`gradus tasks --formats`). The format converts each row of the official files to a row of the form above,
    and chooses the verifier. None: the format is chosen by the data set's name on the Hub, unless a column is named. "rows": no format.

    A text prompt goes to the model raw (`prompt` None or "raw"), or as a user message in the model's chat template ("chat"). A text prompt is always a user
    message if the task has a system message or an environment. With `prompt` None, a text prompt is also a user message if only the training prompts or only
    the held-out prompts are text. A list of chat messages always goes through the template.

    `verify` names the verifier. "final_answer" compares the completion's final answer with the row's answer, as numbers or as text; "mathematics"
    compares both answers as mathematics (LaTeX, fractions, sets, intervals, equations, matrices). "choice" compares the letter of an option, and
    "short_answer" compares the words without case, articles and punctuation. "expression" and "roles" are for puzzles
    (`gradus.tasks.formats.verifiers`). None: the verifier of the format, else "final_answer". With "unit_tests" the completion's program must pass
    the row's tests; with "unit_tests_share" the reward is the share of the tests that it passes. `isolation` is for unit tests only: "bubblewrap", or
    "rlimits". With `isolation` "rlimits", only resources are limited, so a program can read and write every file that you can.

    `bad_rows` is the share of rows that may be bad (0: a bad row is an error). Bad rows are left out, and a run writes them to bad_rows.jsonl. The
    held-out problems come from the file `held_out`. If `held_out` is a number in (0, 1], a hash chooses this share of the distinct prompts, and all their
    rows are held out. The value 1 holds out the whole file, for an evaluation. None: the split validation or test of a data set is held out. Without such
    a split, a tenth of the prompts is held out, at least 1 and at most 256. Training never uses a held-out prompt. `repeats`: "drop" leaves out a
    training row that equals an earlier row in every column; "keep" keeps such a row. Equal held-out rows count once. Rows may have pictures
    (`tasks.data.pictures`). Raises UserError if the source cannot be read or has too many bad rows; the message then names file and line.
    """
    form = format_of(path, format, prompt_column, answer_column)
    verify = verify or (form.verify if form else "final_answer")
    judge, share = _judge(verify, isolation), share_of(held_out)
    table, beside = _open_both(path, None if share else held_out, prompt_column, form, lossy=bad_rows > 0, split=share is None)
    name = name or _name(path.file if isinstance(path, InMemory) else str(path))
    checked = check_rows(table, prompt_column, answer_column, bad_rows=bad_rows, refused=refusal(verify))
    split, evaluation = _held_out(table, beside, checked, name, (str(path), held_out), repeats, share, bad_rows, refusal(verify))
    bad = len(checked.bad) + len(evaluation.bad)
    place = f"{path} in the format {form.name}" if form else str(path)
    task = Task(
        name=name,
        source=replace(source_of(table, checked, name, split.training), bad=checked.bad, accounts=split.accounts),
        held_out=evaluation,
        verify=judge if checked.answered or isinstance(judge, UnitTests) else None,
        provides=checked.provides,
        about=f"{len(split.training)} problems of {place}; {split.about}" + (f"; {bad} bad rows left out" if bad else ""),
    )
    mixed = prompt is None and evaluation.plain != checked.plain  # one of the two has chat messages
    return prompted(task, "chat") if mixed else task if prompt is None else prompted(task, prompt)


def _held_out(
    table: Table, beside: Table | None, checked: Checked, name: str, paths: tuple[str, Any], repeats: str, share: float | None, bad_rows: float, refused: Any
) -> tuple[Split, RowSource]:
    """Returns the split of the rows, and the source of the held-out problems. These problems are a part of `table`, or the rows of the table `beside`.

    `paths`: the names of `table` and `beside` in messages.
    """
    if beside is None:
        split = by_content(table, checked, paths[0], repeats, share)
        return split, source_of(table, checked, name, split.held_out)
    other = check_rows(beside, checked.columns.prompt, checked.columns.answer, bad_rows=bad_rows, refused=refused)
    split = split_beside(table, checked, beside, other, paths[0], str(paths[1] or "its held-out split"), repeats)
    return split, source_of(beside, other, name, split.held_out, part="held_out/", bad=other.bad)


def share_of(held_out: str | Path | float | None) -> float | None:
    """Returns the share of prompts to hold out, if `held_out` is a number or the text of a number; None for a file. Raises UserError if the number is not in
    (0, 1].

    >>> share_of("0.25"), share_of("test.jsonl")
    (0.25, None)
    """
    if held_out is None or os.path.exists(str(held_out)):
        return None
    try:
        share = float(str(held_out))
    except ValueError:
        return None
    if not 0 < share <= 1:
        raise UserError(f"--task.held_out is {held_out}; give a file, or a share of the prompts (a number above 0 and at most 1, such as 0.2)")
    return share


def _open_both(
    path: str | Path | InMemory, held_out: Any, prompt_column: str | None, form: Format | None, *, lossy: bool, split: bool = True
) -> tuple[Table, Table | None]:
    """Returns the table and the held-out table. The held-out split of a data set is not read if the user names another file, or if `split` is false."""
    table, beside = open_tables(path, prompt_column, lossy=lossy)
    if held_out is not None or not split:
        if isinstance(table, DatasetTable) and isinstance(beside, DatasetTable):
            table = replace(table, unread=(*table.unread, f"{beside.split} ({len(beside):,} rows)"))
        beside = None if held_out is None else open_tables(str(held_out), prompt_column, lossy=lossy)[0]
    return in_format(table, form), None if beside is None else in_format(beside, form)


def format_of(path: str | Path | InMemory, format: str | None, prompt_column: str | None = None, answer_column: str | None = None) -> Format | None:
    """Returns the format of a data set's rows; None: rows with a prompt and an answer. The parameters have the same meaning as in `load_task_file`.

    Raises UserError if the format is unknown, or if a format and a column are both given.
    """
    columns = [f"--task.{name}" for name, given in (("prompt_column", prompt_column), ("answer_column", answer_column)) if given is not None]
    if format is None:
        return None if isinstance(path, InMemory) or columns or os.path.exists(path) else format_of_data_set(str(path))
    if format == "rows":
        return None
    if columns:
        raise UserError(f"--task.format {format} chooses the columns; leave out {' and '.join(columns)}, or leave out --task.format")
    return format_named(format)


def in_format(table: Table, form: Format | None) -> Table:
    """Returns the table with its rows in the format; the table itself if `form` is None."""
    return table if form is None else Formatted(table, form)


def _judge(verify: str, isolation: str) -> Verify:
    if verify not in VERIFIERS:
        raise unknown("verifier", verify, VERIFIERS, "Give one with --task.verify")
    judge, kind = VERIFIERS[verify], isolation_named(isolation)
    if isinstance(judge, UnitTests):
        return replace(judge, sandbox=replace(judge.sandbox, isolation=kind))
    if kind is not Isolation.BUBBLEWRAP:
        raise UserError(f"--task.isolation {isolation} has no effect, because the verifier {verify} runs no program; leave --task.isolation out")
    return judge


def refusal(verify: str) -> Callable[[Problem], str | None] | None:
    """Returns a function: problem -> the reason why the verifier cannot use the problem's answer. Returns None for a verifier that accepts every answer."""
    return unusable if isinstance(VERIFIERS.get(verify), UnitTests) else None


@dataclass(frozen=True, eq=False)
class DatasetTable:
    """The table of one split of a data set of the package `datasets`."""

    path: str
    split: str
    dataset: Any
    lost: tuple[BadRow, ...] = ()
    empty: int = 0
    unread: tuple[str, ...] = ()  # the data set's splits that the task does not read, with their sizes

    def __len__(self) -> int:
        return len(self.dataset)

    def rows(self, indices: Sequence[int]) -> list[Row]:
        columns = self.dataset[list(indices)]
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def where(self, index: int) -> str:
        return f"{self.name}, row {index}"

    @property
    def name(self) -> str:
        return f"{self.path} ({self.split})"


def open_tables(path: str | Path | InMemory, prompt_column: str | None, *, lossy: bool = False) -> tuple[Table, Table | None]:
    """Opens a file, a saved folder, a data set or rows in memory. Returns (table, its held-out table); the second element is None if there is no held-out table."""
    if isinstance(path, InMemory):
        return path.table(), None
    path, folder = str(path), Path(path)
    saved = folder.is_dir() and any((folder / f).is_file() for f in ("state.json", "dataset_dict.json"))
    if saved or (not folder.exists() and not _FILE.fullmatch(path) and _DATASET.fullmatch(path)):
        return _open_dataset(path, saved)
    return read_table(folder, prompt_column, lossy=lossy), None


def _open_dataset(path: str, saved: bool) -> tuple[Table, Table | None]:
    try:
        import datasets
    except ImportError:
        raise UserError(f'reading the data set {path} needs the package datasets: pip install "gradus[datasets]"') from None
    try:
        found = datasets.load_from_disk(path) if saved else _from_hub(datasets, path)
    except UserError:
        raise
    except Exception as error:  # the package raises errors of many libraries: network, file system, parsers
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        remedy = "save the data set again with save_to_disk" if saved else "check the name and the network, or give a file"
        raise UserError(f"the data set {path} cannot be loaded: {reason}; {remedy}") from error
    splits = dict(found) if isinstance(found, Mapping) else {"train": found}
    train = "train" if "train" in splits else next(iter(splits))
    if train != "train" and len(splits) > 1:
        raise UserError(f"the data set {path} has no split train (its splits are {', '.join(splits)}); save the split for training with save_to_disk")
    held = next((s for s in ("validation", "test") if s in splits and s != train), None)
    unread = tuple(f"{s} ({len(splits[s]):,} rows)" for s in splits if s not in (train, held))
    tables = [DatasetTable(path, s, splits[s], unread=unread if s == train else ()) for s in (train, held) if s is not None]
    empty = next((t for t in tables if not len(t)), None)
    if empty:
        raise UserError(f"{empty.name} has no rows; give a data set with problems")
    return tables[0], tables[1] if held else None


def _from_hub(datasets: Any, path: str) -> Any:
    """Loads a data set by its name from the hub, or from the cache if the hub does not answer.

    If the hub does not answer and the cache lacks the data set, raises UserError with the commands that save the data set.
    """
    owner, name, *configuration = path.split("/")
    if hub.answers():
        return datasets.load_dataset(f"{owner}/{name}", *configuration)
    silence = hub.silence()
    try:
        with hub.offline():
            return datasets.load_dataset(f"{owner}/{name}", *configuration)
    except Exception as error:  # the package raises errors of many libraries
        reason = "" if isinstance(error, ConnectionError) else f" ({' '.join(str(error).split())[:200]})"
        place = f"the data set {path} is not on this disk{reason}, and {silence}"
        raise UserError(f"{place}; run this on a machine with a network: {hub.data_set(path)}") from None


def _name(path: str) -> str:
    """Returns a task's name: the name of the file without its extension, or the last part of the name of the folder or data set."""
    return Path(path).stem if _FILE.fullmatch(path) else Path(path).name
