"""Functions that tasks with several kinds of problem share: they choose the kinds, find the answer in a completion and make hints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from gradus.types import Frozen, Outcome, Problem, UserError, unknown

Hints = Frozen[tuple[str, ...]]


def chosen(task: str, kinds: str, known: Iterable[str]) -> tuple[str, ...]:
    """Returns the kinds in a list such as "path,cycle"; "all" gives all known kinds. Raises UserError for an empty list or an unknown kind."""
    known = tuple(known)
    names = tuple(dict.fromkeys(name.strip() for name in kinds.split(",") if name.strip()))
    if not names:
        raise UserError(f'task {task}: `kinds` is "{kinds}"; give "all", or one or more of {", ".join(known)}, separated by commas')
    if names == ("all",):
        return known
    for name in names:
        if name not in known:
            raise unknown(f"kind of {task}", name, ("all", *known))
    return names


def ending(completion: str, most: int) -> str | None:
    """Returns the text after the last "=", without spaces at its ends; None without "=". Only the last `most` characters are read."""
    _, marker, last = completion[-most:].rpartition("=")
    return last.strip(" \n") if marker else None


def verify_exact(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" equals the answer exactly, except for spaces at both ends; else 0.0."""
    return float(ending(completion, len(str(problem.answer)) + 64) == str(problem.answer))


def hints(knowledge: Sequence[str], planning: Sequence[str], solution: str) -> Hints:
    """Returns three kinds of hint, from abstract to concrete. The third kind is the solution, cut at spaces into at most four parts."""
    words = solution.split(" ")
    count = min(4, len(words))
    cuts = [round(len(words) * i / count) for i in range(count + 1)]
    parts = tuple((" " if i else "") + " ".join(words[i:j]) for i, j in pairwise(cuts))
    return Frozen(knowledge=tuple(knowledge), planning=tuple(planning), solution=parts)
