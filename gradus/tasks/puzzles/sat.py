"""Satisfiability: a clause is a word, a letter is a variable, a capital letter is its negation. "aB bc AC" has three clauses: a or not b; b or c; not a or not
c."""

from __future__ import annotations

import random
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending, hints
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_LEVELS = {  # variables, clauses, possible widths of a clause
    1: (3, 5, (1, 2, 2)),
    2: (4, 8, (2, 2, 3)),
    3: (5, 14, (2, 3, 3)),
    4: (7, 28, (3,)),
    5: (10, 44, (3,)),
    6: (14, 62, (3,)),
    7: (20, 86, (3,)),
}
_LETTERS = "abcdefghijklmnopqrst"  # without u, so that "unsat" is not an assignment
_UNSAT = 0.2  # share of the problems without a satisfying assignment: the best blind guess, from level 2 on


def sat(level: int = 2) -> Task:
    """Levels 1 to 7 have three to twenty variables. From level 4 on, all clauses have three letters, at the edge of satisfiability."""
    return generated_task(
        "sat",
        _sat,
        verify,
        level=level,
        levels=(1, 7),
        max_tokens={1: 64, 2: 160, 3: 320}.get(level, 1024 * max(1, level - 3)),
        chance=_UNSAT,
        about='satisfy every clause or show that none can: "aB bc AC" -> "...=abC" (capital: not) or "=unsat"; level: variables',
        provides=("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" lists literals that satisfy every clause, or is "unsat" and no assignment fits; else 0.0."""
    last = ending(completion, 64)
    if last is None or last == "unsat":
        return float(last == problem.answer)
    return float(re.fullmatch(r"[A-Ta-t]{1,20}", last) is not None and satisfies(last, problem.meta["clauses"]))


def satisfies(literals: str, clauses: Sequence[str]) -> bool:
    """Returns whether the literals make every clause true, and name only variables of the clauses, each at most once."""
    named, there = literals.lower(), set("".join(clauses).lower())
    return len(set(named)) == len(named) and set(named) <= there and all(set(literals) & set(clause) for clause in clauses)


def simplified(clauses: Sequence[str], literal: str) -> tuple[str, ...]:
    """Returns the clauses that remain if `literal` is true: clauses with `literal` are dropped, and the negation of `literal` is removed. An empty clause is
    unsatisfiable."""
    return tuple(clause.replace(literal.swapcase(), "") for clause in clauses if literal not in clause)


def searched(clauses: Sequence[str], given: str = "") -> tuple[list[str], str | None]:
    """Returns (the steps of a search, the satisfying literals that the search found); the second element is None if there are no such literals. A clause of one
    letter is forced; else the most frequent letter is tried.

    Reference: Davis, Logemann, Loveland, A machine program for theorem-proving, 1962. A step is written as the literal, ":" and the remaining clauses, or "x" if
    a clause is empty.
    """
    if not clauses:
        return [], given
    forced = next((clause for clause in clauses if len(clause) == 1), None)
    counts = Counter("".join(clauses))
    first = forced or min(counts, key=lambda literal: (-counts[literal], literal.lower(), literal))
    steps = []
    for literal in first if forced else first + first.swapcase():
        left = simplified(clauses, literal)
        steps.append(f"{literal}:{'x' if '' in left else ','.join(left)}")
        more, found = ([], None) if "" in left else searched(left, given + literal)
        steps += more
        if found is not None:
            return steps, found
    return steps, None


def signature(clauses: Sequence[str]) -> str:
    """Returns a text that describes the form of the formula. The text does not depend on the names and signs of variables, on the order of clauses, or on
    the order of letters within clauses.

    The letters themselves are not used. Every literal and every clause has a colour. In three rounds, every literal and every clause gets a new colour
    from the colours around it.
    """
    where: dict[str, list[int]] = {}
    for i, clause in enumerate(clauses):
        for letter in clause:
            where.setdefault(letter, []).append(i)
            where.setdefault(letter.swapcase(), [])
    colour = dict.fromkeys(where, 0)
    inside: list[int] = []
    for _ in range(3):
        inside = [_mixed(sorted(colour[letter] for letter in clause)) for clause in clauses]
        found = {x: _mixed(sorted(inside[i] for i in where[x])) for x in where}
        colour = {x: _mixed((found[x], found[x.swapcase()])) for x in where}
    return " ".join(map(str, sorted(inside)))


def _mixed(numbers: Iterable[int]) -> int:
    """Returns a 32-bit hash of the numbers in their order, the same on every machine."""
    return zlib.crc32(str(tuple(numbers)).encode())


def _sat(rng: random.Random, level: int) -> Draft:
    wanted = rng.random() >= _UNSAT
    clauses: tuple[str, ...] = ()
    found: str | None = None
    while not clauses or (found is not None) != wanted:
        clauses = _clauses(rng, level)
        steps, found = searched(clauses)
    answer = "".join(sorted(found, key=str.lower)) if found is not None else "unsat"
    solution = f"{' '.join(steps)}={answer}"
    kind = "sat" if found is not None else "unsat"
    help_ = hints(
        ("a capital means not", ", every word needs a true letter", ", one opposite in each empties a word", ", then no choice is right"),
        (f"start with {steps[0][0]}", f", left is {steps[0][2:]}", ", then words of one letter", f", in the end {kind}"),
        solution,
    )
    meta = Frozen(clauses=clauses, variables=_LEVELS[level][0], hints=help_, category=kind)
    return Draft(" ".join(clauses), answer, solution, signature(clauses), meta)


def _clauses(rng: random.Random, level: int) -> tuple[str, ...]:
    """Returns random different clauses that use every variable."""
    variables, count, widths = _LEVELS[level]
    found: dict[str, None] = {}
    while len(found) < count:
        letters = sorted(rng.sample(_LETTERS[:variables], rng.choice(widths)))
        found["".join(rng.choice((x, x.upper())) for x in letters)] = None
    return tuple(found) if len(set("".join(found).lower())) == variables else _clauses(rng, level)
