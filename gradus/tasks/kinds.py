"""What tasks of several kinds share: which kinds are drawn from, what a completion answers, and hints cut from a worked solution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from gradus.types import Frozen, Outcome, Problem, UserError, unknown

Hints = Frozen[tuple[str, ...]]


def chosen(task: str, kinds: str, known: Iterable[str]) -> tuple[str, ...]:
    """The kinds of a list such as "path,cycle", or every known one for "all". Raises UserError for none at all or one that is not known."""
    known = tuple(known)
    names = tuple(dict.fromkeys(name.strip() for name in kinds.split(",") if name.strip()))
    if not names:
        raise UserError(f'task {task}: kinds is "{kinds}"; give "all" or some of {", ".join(known)}, with commas between')
    if names == ("all",):
        return known
    for name in names:
        if name not in known:
            raise unknown(f"kind of {task}", name, ("all", *known))
    return names


def ending(completion: str, most: int) -> str | None:
    """What stands after the last "=", stripped; only the last `most` characters are read. None without that sign."""
    _, marker, last = completion[-most:].rpartition("=")
    return last.strip(" \n") if marker else None


def verify_exact(problem: Problem, completion: str) -> Outcome:
    """1.0 where the text after the last "=" is the answer to the letter; spaces round it do not count."""
    return float(ending(completion, len(str(problem.answer)) + 64) == str(problem.answer))


def hints(knowledge: Sequence[str], planning: Sequence[str], solution: str) -> Hints:
    """Three kinds of hint, from abstract to concrete; the solution in at most four parts, cut at its spaces, that give it when joined."""
    words = solution.split(" ")
    count = min(4, len(words))
    cuts = [round(len(words) * i / count) for i in range(count + 1)]
    parts = tuple((" " if i else "") + " ".join(words[i:j]) for i, j in pairwise(cuts))
    return Frozen(knowledge=tuple(knowledge), planning=tuple(planning), solution=parts)
