"""Writes whole problems as JSON lines, each with further columns, and reads them again. A stage or a screening writes these lines.

A line is {"problem": {...}, "solution": "..."}: first the problem's fields in packed form (`gradus.types.packing`), then the further columns.
The reader puts these columns into the problem's `meta`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.packing import packed, unpacked
from gradus.types.parts import Task


def line(row: Mapping[str, Any], where: str, task: str = "made") -> str:
    """Writes a row as a line of JSON. A row without `problem` has a `prompt` (text or messages) and may have an `answer`.

    Args: where: names the row in errors; task: the task of a new problem. Raises UserError for an invalid row.
    """
    if not isinstance(row, Mapping) or not all(isinstance(name, str) for name in row):
        raise UserError(f'{where} is {row!r:.60}; it must be a mapping, for example {{"problem": a Problem, "solution": "..."}}')
    given = row.get("problem")
    problem = given if isinstance(given, Problem) else _new(row, where, task)
    columns = {name: value for name, value in row.items() if name not in (("problem",) if given is not None else ("prompt", "answer"))}
    try:
        return json.dumps({"problem": {f.name: packed(getattr(problem, f.name)) for f in fields(Problem)}, **columns}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where} cannot be stored: {error}; convert its values to text, numbers or lists") from None


def _new(row: Mapping[str, Any], where: str, task: str) -> Problem:
    prompt = row.get("prompt")
    if not isinstance(prompt, str) and not (isinstance(prompt, Sequence) and all(isinstance(m, Mapping) for m in prompt)):
        raise UserError(f'{where} has neither a "problem" (a Problem) nor a "prompt" (text, or messages); add one of the two to the row')
    messages = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else tuple(dict(m) for m in prompt)
    name = hashlib.blake2b(json.dumps(messages, sort_keys=True, default=str).encode(), digest_size=6).hexdigest()
    return Problem(f"{task}-{name}", task, messages, answer=row.get("answer"))


@dataclass(frozen=True)
class StoredProblems:
    """The problems in a file of lines that `line` wrote, in the order of the file. Several lines may have the same problem with different columns."""

    path: str

    @cached_property
    def _rows(self) -> tuple[Problem, ...]:
        found: list[Problem] = []
        seen: Counter[str] = Counter()  # if several lines have the same problem, each gets a different id
        for number, text in enumerate(_text(self.path).splitlines(), start=1):
            try:
                row = json.loads(text)
                problem = Problem(**{name: unpacked(value) for name, value in row.pop("problem").items()})
                seen[problem.id] += 1
                name = problem.id if seen[problem.id] == 1 else f"{problem.id}/{seen[problem.id]}"
                found.append(replace(problem, id=name, meta=Frozen({**problem.meta, **row})))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UserError(
                    f"{self.path}, line {number} is not a stored problem ({type(error).__name__}: {error}); give a file from gradus screen or "
                    "from a stage, or give the rows as a task with --task FILE"
                ) from None
        return tuple(found)

    @property
    def size(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that every problem has."""
        return frozenset.intersection(*(frozenset(p.meta) for p in self._rows)) if self._rows else frozenset()

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        """Returns the problems at these indices. `level` and `key` have no effect."""
        return [self._rows[i] for i in indices]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the stored problems {path} cannot be read: {error}; give a file from gradus screen or from a stage") from None


def of_stored(task: Task, path: str | Path) -> Task:
    """Replaces the training problems of a task by the problems in a file. Verifier, environment and held-out problems stay the same.

    Raises UserError for a file without problems.
    """
    source = StoredProblems(str(path))
    if not source.size:
        raise UserError(
            f"{path} contains no problem, because the screening or the stage kept no problem; widen the band of the screening, or make the "
            "rows from more answers"
        )
    return replace(task, source=source, provides=task.provides | source.columns)
