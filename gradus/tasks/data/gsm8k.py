"""The task GSM8K: grade-school word problems, read from the official files.

A file has one JSON object per line with `question` and `answer`. The answer has the steps, and ends with a number as in "#### 72".

Reference: Cobbe et al., Training Verifiers to Solve Math Word Problems, arXiv:2110.14168.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from gradus.tasks.data.files import chunks, read_table
from gradus.tasks.generated import is_held_out
from gradus.types import Frozen, Key, Outcome, Problem, Sampling, UserError
from gradus.types.answers import final_answer
from gradus.types.parts import Task

_NUMBER = re.compile(r"(?:(?<![0-9.])-)?\$?-?[0-9]{1,30}(?:,[0-9]{3}){0,9}(?:\.[0-9]{1,30})?")
_TAIL = 4096  # characters at the end of a completion that are read


def gsm8k(path: str | None = None, held_out: str | None = None) -> Task:
    """Makes the task GSM8K. `path`: the training file, train.jsonl. `held_out`: the evaluation file; None: a tenth of the rows of `path`, chosen by content."""
    return Task(
        name="gsm8k",
        source=Gsm8k(path, held_out),
        held_out=Gsm8k(path, held_out, evaluation=True),
        verify=verify,
        provides=frozenset({"solution"}),
        about="grade-school word problems from the official files; --task.path train.jsonl",
        sampling=Sampling(max_tokens=256),
    )


@dataclass(frozen=True)
class Gsm8k:
    """The problems of the official files, which are read when they are first needed. No evaluation question is among the training questions."""

    path: str | None = None
    held_out: str | None = None
    evaluation: bool = False

    @property
    def size(self) -> int:
        """The number of problems. Raises UserError if the file cannot be read or a row is malformed."""
        return len(self._problems())

    def draw(self, indices: Sequence[int], level: float | None, key: Key) -> list[Problem]:
        problems = self._problems()
        if max(indices, default=0) >= len(problems):
            use = "held-out" if self.evaluation else "training"
            raise UserError(
                f"{self.path} has {len(problems)} {use} problems, but {max(indices) + 1} are needed; set a smaller number "
                "(--study.problems N of gradus train, --problems N of gradus eval)"
            )
        return [problems[i] for i in indices]

    def _problems(self) -> tuple[Problem, ...]:
        if self.path is None and self.held_out is not None and self.evaluation:
            return _only(_stamp(self.held_out))
        if self.path is None:
            raise UserError("task gsm8k needs a file; give the official train.jsonl (of openai/grade-school-math) with --task.path")
        return _split(_stamp(self.path), None if self.held_out is None else _stamp(self.held_out))[int(self.evaluation)]


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the last number of the final answer (see `final_answer`) equals the problem's answer (1,080 = $1080.00); else 0.0."""
    return float(last_number(final_answer(completion[-_TAIL:])) == Fraction(problem.answer))


def last_number(text: str) -> Fraction | None:
    """Returns the last number of a text; None if there is no number. The dollar sign and commas between thousands are ignored."""
    found = _NUMBER.findall(text)
    return Fraction(found[-1].replace(",", "").replace("$", "").replace("--", "-")) if found else None


def _stamp(path: str) -> tuple[str, int]:
    """Returns (path, time of the file's last change), so that a changed file is read again."""
    return path, Path(path).stat().st_mtime_ns if Path(path).is_file() else 0


@lru_cache(maxsize=4)
def _split(path: tuple[str, int], held_out: tuple[str, int] | None) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Returns (training problems, evaluation problems)."""
    rows = _read(Path(path[0]))
    if held_out is None:
        return tuple(p for p in rows if not is_held_out("gsm8k", p.question)), tuple(p for p in rows if is_held_out("gsm8k", p.question))
    kept = _read(Path(held_out[0]))
    questions = {p.question for p in kept}
    return tuple(p for p in rows if p.question not in questions), tuple(kept)


@lru_cache(maxsize=4)
def _only(path: tuple[str, int]) -> tuple[Problem, ...]:
    return tuple(_read(Path(path[0])))


def _read(path: Path) -> list[Problem]:
    table = read_table(path)
    return [
        _problem(row, f"{path.stem}-{start + i}", table.where(start + i)) for start, rows in chunks(table) for i, row in enumerate(rows)
    ]


def _problem(row: object, name: str, where: str) -> Problem:
    """Returns the problem of a row. Raises UserError with file and line if the row is not in the official form."""
    if not isinstance(row, dict) or not all(isinstance(row.get(f), str) and row[f].strip() for f in ("question", "answer")):
        raise UserError(f'{where}: a row of GSM8K must have text in the fields "question" and "answer"; fix the line, or give the official file')
    _, marker, last = row["answer"].rpartition("####")
    number = last_number(last)
    if not marker or number is None:
        raise UserError(f'{where}: "answer" must end with "####" and a number; fix the line, or give the official file')
    return Problem(
        f"gsm8k-{name}",
        "gsm8k",
        messages=({"role": "user", "content": row["question"]},),
        answer=str(number),
        meta=Frozen({"solution": row["answer"]}),
    )
