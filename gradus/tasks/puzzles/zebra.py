"""Zebra puzzles: assign names to houses in a row, by clues that exactly one assignment satisfies."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending, hints
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_LEVELS = {  # houses, rows of names, whether it is solvable without trying out
    1: (3, 2, True),
    2: (4, 2, True),
    3: (4, 3, True),
    4: (5, 3, True),
    5: (5, 4, False),
    6: (6, 5, False),
}
_LIMITS = {1: 90, 2: 150, 3: 240, 4: 400, 5: 600, 6: 1200}  # level -> characters of the longest worked solution, and some more
_NAMES = ("ABCDEF", "uvwxyz", "klmnop", "PQRSTU", "abcdef")
_TAIL = 512
_SIGNS = "::!<<--~~~"  # signs of a clue between two names, by frequency
_TRIES = 8  # limit for the clues whose removal is tested by a search, because a search is much slower than deduction
_HOUSE = 0.15  # share of the clues that name a house


@dataclass(frozen=True)
class Relation:
    """`holds`: whether the relation is true for the houses of two names.

    `narrow`: the possible houses of two names -> the houses that the relation still allows, one bit per house.
    """

    holds: Callable[[int, int], bool]
    narrow: Callable[[int, int], tuple[int, int]]
    both_ways: bool  # whether the relation is symmetric
    rule: str


def zebra(level: int = 2) -> Task:
    """At `level` 1 to 6, a puzzle has 3, 4, 4, 5, 5 and 6 houses, and 2, 2, 3, 3, 4 and 5 rows of names. Levels 5 and 6 may need trial and error."""
    return generated_task(
        "zebra",
        _zebra,
        verify,
        level=level,
        levels=(min(_LEVELS), max(_LEVELS)),
        max_tokens=_LIMITS.get(level, 0),
        chance=1 / 576,  # 4! orders of either row of names at level 2
        about='who lives where: "ABC uvw | A:1 B!v u<C w-B v~A" (same house, another, left of, just left of, next to) -> '
        '"A1 B23 ... =ACB uwv": every row of names in the order of the houses',
        provides=("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the rows after the last "=" contain every name once, in the order of the houses, and all clues are true; else 0.0."""
    said = ending(completion, _TAIL)
    if said is None or not said.isascii():
        return 0.0
    rows = said.replace(",", " ").split()
    names = problem.meta["names"]
    if sorted("".join(sorted(row)) for row in rows) != sorted("".join(sorted(row)) for row in names):
        return 0.0
    house = {name: place for row in rows for place, name in enumerate(row)}
    return float(all(true(clue, house) for clue in problem.meta["clues"]))


def true(clue: str, house: Mapping[str, int]) -> bool:
    """Returns whether a clue such as "A<x" or "A:1" is true. `house`: name -> house, counted from 0."""
    first, sign, second = clue[0], clue[1], clue[2]
    return RELATIONS[sign].holds(house[first], int(second) - 1 if second.isdigit() else house[second])


def _same(a: int, b: int) -> tuple[int, int]:
    return a & b, a & b


def _different(a: int, b: int) -> tuple[int, int]:
    return (a & ~b if _one(b) else a), (b & ~a if _one(a) else b)


def _left(a: int, b: int) -> tuple[int, int]:
    below = (1 << max(b.bit_length() - 1, 0)) - 1
    above = -((a & -a) << 1)
    return a & below, b & above


def _just_left(a: int, b: int) -> tuple[int, int]:
    return a & b >> 1, b & a << 1


def _beside(a: int, b: int) -> tuple[int, int]:
    return a & (b >> 1 | b << 1), b & (a >> 1 | a << 1)


RELATIONS: dict[str, Relation] = {
    ":": Relation(lambda a, b: a == b, _same, True, "A:v and A:1 share a house"),
    "!": Relation(lambda a, b: a != b, _different, True, "A!v and A!1 do not"),
    "<": Relation(lambda a, b: a < b, _left, False, "A<v is somewhere left of it"),
    "-": Relation(lambda a, b: a + 1 == b, _just_left, False, "A-v is just left of it"),
    "~": Relation(lambda a, b: abs(a - b) == 1, _beside, True, "A~v is next to it"),
}


def _one(bits: int) -> bool:
    return bits & (bits - 1) == 0


def opened(names: Sequence[str]) -> dict[str, int]:
    """Returns the start of a search: every house is possible for every name."""
    return {name: (1 << len(names[0])) - 1 for row in names for name in row}


def narrowed(names: Sequence[str], clues: Sequence[str], possible: dict[str, int], trace: list[str] | None = None) -> bool:
    """Removes possible houses until nothing changes: houses excluded by a clue, and houses of another name in the row.

    Returns False if a name has no possible house.

    `trace` gets a line per change: "A12" means that A is in house 1 or 2.
    """

    def put(name: str, bits: int) -> bool:
        if bits == possible[name]:
            return False
        possible[name] = bits
        if trace is not None:
            trace.append(name + _houses(bits))
        return True

    moved = True
    while moved:
        moved = False
        for clue in clues:
            first, sign, second = clue[0], clue[1], clue[2]
            there = 1 << int(second) - 1 if second.isdigit() else possible[second]
            a, b = RELATIONS[sign].narrow(possible[first], there)
            moved |= put(first, a)
            moved |= not second.isdigit() and put(second, b)
        for row in names:
            for name, bits in _of_row(row, possible):
                moved |= put(name, bits)
        if not all(possible.values()):
            return False
    return True


def _houses(bits: int) -> str:
    return "".join(str(i + 1) for i in range(bits.bit_length()) if bits >> i & 1)


def _of_row(row: str, possible: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yields the names of a row with their new possible houses, without the settled houses of other names.

    If only one name can be in a house, this house becomes the only possible house of the name.
    """
    once = twice = taken = 0
    for name in row:
        bits = possible[name]
        if _one(bits) and bits & taken:
            yield name, 0
            return
        twice |= once & bits
        once |= bits
        taken |= bits if _one(bits) else 0
    for name in row:
        bits = possible[name]
        if not _one(bits):
            left = bits & ~taken
            yield name, left & once & ~twice or left


def answers(names: Sequence[str], clues: Sequence[str], possible: dict[str, int], most: int) -> list[dict[str, int]]:
    """Returns up to `most` assignments that fit the clues. An assignment maps every name to its house, as one bit."""
    if not narrowed(names, clues, possible):
        return []
    name = _narrowest(possible)
    if name is None:
        return [possible]
    found: list[dict[str, int]] = []
    for house in _houses(possible[name]):
        found += answers(names, clues, {**possible, name: 1 << int(house) - 1}, most - len(found))
        if len(found) >= most:
            break
    return found


def _narrowest(possible: Mapping[str, int]) -> str | None:
    open_ = [(bits.bit_count(), name) for name, bits in possible.items() if not _one(bits)]
    return min(open_)[1] if open_ else None


def _zebra(rng: random.Random, level: int) -> Draft:
    houses, rows, easy = _LEVELS[level]
    names = tuple(row[:houses] for row in _NAMES[:rows])
    settled = tuple("".join(rng.sample(row, houses)) for row in names)
    house = {name: place for row in settled for place, name in enumerate(row)}
    clues = _fewer(rng, names, _clues(rng, names, house), easy)
    worked = _worked(names, clues, house)
    answer = " ".join(settled)
    solution = f"{' '.join(worked)} ={answer}"
    knowledge = tuple(f"{'; ' if i else ''}{RELATIONS[sign].rule}" for i, sign in enumerate(sorted({clue[1] for clue in clues})))
    told = hints(
        knowledge, (f"begin with {worked[0].lstrip('?')[0]}", f"; the first house has {' '.join(row[0] for row in settled)}"), solution
    )
    meta = Frozen(category=f"{houses}x{rows}", names=names, clues=clues, hints=told)
    return Draft(f"{' '.join(names)} | {' '.join(clues)}", answer, solution, content(names, clues, house), meta)


def _clues(rng: random.Random, names: Sequence[str], house: Mapping[str, int]) -> list[str]:
    """Draws true clues until every name is settled. A clue is kept only if it excludes, without the help of other clues, a house that is still possible."""
    possible, clues = opened(names), list[str]()
    while _narrowest(possible) is not None:
        clue = _clue(rng, names, house)
        tried = dict(possible)
        narrowed(names, [clue], tried)
        if tried != possible:
            clues.append(clue)
            possible = tried
            narrowed(names, clues, possible)
    return clues


def _clue(rng: random.Random, names: Sequence[str], house: Mapping[str, int]) -> str:
    while True:
        if rng.random() < _HOUSE:
            clue = rng.choice(list(house)) + rng.choice(":!") + str(rng.randint(1, len(names[0])))
        else:
            a, b = rng.sample(list(house), 2)
            sign = rng.choice(_SIGNS)
            clue = min(a, b) + sign + max(a, b) if RELATIONS[sign].both_ways else a + sign + b
            if sign in ":!" and any(a in row and b in row for row in names):
                continue  # two names of a row never share a house
        if true(clue, house):
            return clue


def _fewer(rng: random.Random, names: Sequence[str], clues: Sequence[str], easy: bool) -> tuple[str, ...]:
    """Returns the clues in another order, without clues that tests find unnecessary."""
    kept = rng.sample(clues, len(clues))
    tries = 0 if easy else _TRIES
    for clue in clues:
        rest = [c for c in kept if c != clue]
        possible = opened(names)
        narrowed(names, rest, possible)
        if _narrowest(possible) is None:
            kept = rest
        elif tries:
            tries -= 1
            kept = rest if len(answers(names, rest, possible, 2)) == 1 else kept
    return tuple(kept)


def _worked(names: Sequence[str], clues: Sequence[str], house: Mapping[str, int]) -> list[str]:
    """Returns the deductions, line by line. A "?" marks a name whose house is a guess."""
    possible, trace = opened(names), list[str]()
    narrowed(names, clues, possible, trace)
    while (name := _narrowest(possible)) is not None:
        possible[name] = 1 << house[name]
        trace.append(f"?{name}{house[name] + 1}")
        narrowed(names, clues, possible, trace)
    return trace


def content(names: Sequence[str], clues: Sequence[str], house: Mapping[str, int]) -> str:
    """Returns the clues as text, with row and house in place of names. Each direction, and each order of up to three rows, gives a text; the first text in sort
    order is returned.
    """
    last = len(names[0]) - 1
    row_of = {name: i for i, row in enumerate(names) for name in row}
    orders = list(permutations(range(len(names)))) if len(names) <= 3 else [tuple(range(len(names)))]
    return min(_told(clues, house, row_of, order, last if mirrored else None) for order in orders for mirrored in (False, True))


def _told(clues: Sequence[str], house: Mapping[str, int], row_of: Mapping[str, int], order: Sequence[int], last: int | None) -> str:
    lines = []
    for clue in clues:
        first, sign, second = clue[0], clue[1], clue[2]
        places = [(9, int(name) - 1) if name.isdigit() else (order[row_of[name]], house[name]) for name in (first, second)]
        if last is not None:
            places = [(row, last - place) for row, place in places]
            places = places if RELATIONS[sign].both_ways else places[::-1]
        lines.append(f"{sign}{sorted(places) if RELATIONS[sign].both_ways else places}")
    return " ".join([f"{len(order)} rows", *sorted(lines)])
