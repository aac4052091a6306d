"""Sorting: put numbers, letters or words in order, or find a rank or the number of pairs out of order."""

from __future__ import annotations

import random
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import Hints, chosen, ending, hints
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_SIZES = {1: (3, 20), 2: (5, 100), 3: (8, 100), 4: (12, 1000), 5: (20, 1000), 6: (40, 10_000)}
"""Level -> number of items, and exclusive upper bound of the numbers."""
_LIMITS = {1: 70, 2: 140, 3: 280, 4: 480, 5: 880, 6: 1800}  # level -> characters of the longest worked solution, and some more
_VOWELS, _CONSONANTS = "aeiou", "bcdfghjklmnpqrstvwxyz"
_TAIL = 1024


@dataclass(frozen=True)
class Kind:
    """`solve`: items and rank (used by pick) -> the answer. `rule`: the rule in words, for hints."""

    items: Callable[[random.Random, int], list[str]]
    solve: Callable[[Sequence[str], int], list[str]]
    rule: str
    chance: float  # accuracy of guessing at level 2


def sorting(level: int = 2, kinds: str = "all") -> Task:
    """Lists of 3, 5, 8, 12, 20 and 40 items at `level` 1 to 6.

    `kinds`: "all" or a list of up, down, letters, words, lengths, distinct, pick, swaps.  Raises: UserError for an unknown kind.
    """
    names = chosen("sorting", kinds, KINDS)
    return generated_task(
        "sorting",
        partial(_sorting, kinds=names),
        verify,
        level=level,
        levels=(min(_SIZES), max(_SIZES)),
        max_tokens=_LIMITS.get(level, 0),
        chance=sum(KINDS[name].chance for name in names) / len(names),
        about='put in order: "up 52 7 93" -> "52, 7 52, 7 52 93 =7 52 93"; down, letters and words by the alphabet, lengths (equal ones '
        "stay as they stand), distinct (upwards, each once), pick 2 of (the second smallest), swaps (pairs out of order)",
        provides=("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the items after the last "=", separated by spaces or commas, are the right items in the right order; else 0.0."""
    said = ending(completion, _TAIL)
    if said is None or not said.isascii():
        return 0.0
    right = KINDS[problem.meta["category"]].solve(problem.meta["items"], problem.meta["rank"])
    return float(said.replace(",", " ").split() == right)


def _numbers(rng: random.Random, level: int) -> list[str]:
    count, most = _SIZES[level]
    return [str(n) for n in rng.sample(range(most), count)]


def _repeated(rng: random.Random, level: int) -> list[str]:
    """Returns random numbers, some of them repeated."""
    count, most = _SIZES[level]
    some = rng.sample(range(most), max(2, count * 2 // 3))
    return [str(n) for n in rng.sample([*some, *rng.choices(some, k=count - len(some))], count)]


def _letters(rng: random.Random, level: int) -> list[str]:
    count = _SIZES[level][0]
    return rng.choices("abcdefghijklmnopqrstuvwxyz", k=count) if count > 26 else rng.sample("abcdefghijklmnopqrstuvwxyz", count)


def _words(rng: random.Random, level: int) -> list[str]:
    """Returns different words of 2 to 5 letters, with alternating consonants and vowels. From level 3 on, about half of them begin with s."""
    found: dict[str, None] = {}
    while len(found) < _SIZES[level][0]:
        first = "s" if level > 2 and rng.random() < 0.5 else rng.choice(_CONSONANTS)
        rest = (rng.choice(_CONSONANTS if i % 2 else _VOWELS) for i in range(rng.randint(1, 4)))
        found[first + "".join(rest)] = None
    return list(found)


def _ascending(items: Sequence[str], rank: int) -> list[str]:
    return sorted(items, key=int)


def _descending(items: Sequence[str], rank: int) -> list[str]:
    return sorted(items, key=int, reverse=True)


def _alphabetical(items: Sequence[str], rank: int) -> list[str]:
    return sorted(items)


def _by_length(items: Sequence[str], rank: int) -> list[str]:
    return sorted(items, key=len)  # stable


def _distinct(items: Sequence[str], rank: int) -> list[str]:
    return [item for item, _ in groupby(_ascending(items, rank))]


def _ranked(items: Sequence[str], rank: int) -> list[str]:
    return [_ascending(items, rank)[rank - 1]]


def _swaps(items: Sequence[str], rank: int) -> list[str]:
    return [str(sum(larger_before(items)))]


def larger_before(items: Sequence[str]) -> list[int]:
    """Returns, for every number, the count of larger numbers before it; 5 2 8 1 gives 0 1 0 3."""
    numbers = [int(item) for item in items]
    return [sum(earlier > n for earlier in numbers[:i]) for i, n in enumerate(numbers)]


# Guessing at level 2: one of 5! orders of five items; one of 3! orders of three different items; one of five ranks; the answer
# of 5 swaps, which is right for 22 of the 120 orders.
KINDS: dict[str, Kind] = {
    "up": Kind(_numbers, _ascending, "the smallest number first", 1 / 120),
    "down": Kind(_numbers, _descending, "the largest number first", 1 / 120),
    "letters": Kind(_letters, _alphabetical, "as in the alphabet", 1 / 120),
    "words": Kind(_words, _alphabetical, "as in a dictionary", 1 / 120),
    "lengths": Kind(_words, _by_length, "short words first, equal lengths as they stand", 1 / 120),
    "distinct": Kind(_repeated, _distinct, "the smallest number first, each number once", 1 / 6),
    "pick": Kind(_numbers, _ranked, "sort upwards and count", 1 / 5),
    "swaps": Kind(_numbers, _swaps, "for every number, count larger ones before it, and add up", 22 / 120),
}


def _sorting(rng: random.Random, level: int, kinds: tuple[str, ...]) -> Draft:
    name = rng.choice(kinds)
    kind = KINDS[name]
    items = kind.items(rng, level)
    rank = rng.randint(1, len(items)) if name == "pick" else 0
    question = f"{name} {f'{rank} of ' if rank else ''}{' '.join(items)}"
    answer = " ".join(kind.solve(items, rank))
    solution = f"{_worked(name, items)} ={answer}"
    meta = Frozen(category=name, items=tuple(items), rank=rank, hints=_hints(kind, items, solution))
    # The same items in another order, or in another kind, have the same content.
    return Draft(question, answer, solution, " ".join(sorted(items)), meta)


def _worked(name: str, items: Sequence[str]) -> str:
    """Returns the sorted items after each of the last eight insertions; for swaps, every number with the count of larger numbers before it."""
    if name == "swaps":
        return " ".join(f"{item}:{count}" for item, count in zip(items, larger_before(items), strict=True))
    done: list[tuple[int | str, int, str]] = []  # (key, place, item); the place keeps the order of equal keys
    lines = []
    for place, item in enumerate(items):
        key: int | str = len(item) if name == "lengths" else int(item) if item.isdigit() else item
        if name == "distinct" and any(key == other for other, _, _ in done):
            continue
        insort(done, (-key if name == "down" and isinstance(key, int) else key, place, item))
        lines.append(" ".join(text for *_, text in done))
    return ", ".join(lines[-8:])  # if the list is long, only the last insertions


def _hints(kind: Kind, items: Sequence[str], solution: str) -> Hints:
    first, second = items[:2]
    knowledge = (kind.rule, f"; there are {len(items)} items")
    return hints(knowledge, (f"begin with {first}", f", then {second}", ", and so on with the others"), solution)
