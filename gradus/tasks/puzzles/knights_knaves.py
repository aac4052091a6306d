"""Knights and knaves: knights tell the truth, knaves lie, and exactly one assignment fits all statements."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from gradus.tasks.generated import Draft, generated_task
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_NAMES = "ABCDEFGHIJLMOPQRSTUVWXYZ"  # all letters but K and N, which stand for the roles
ALONE = 2 / 3  # share of the statements about one person
_TAIL = 64


@dataclass(frozen=True)
class Statement:
    """A statement about one or two people. `wording`: its text in the prompt; `holds`: its truth under an assignment (True means knight)."""

    wording: str
    holds: Callable[[Sequence[bool]], bool]


def knights_knaves(level: int = 2) -> Task:
    """The puzzle has two people at `level` 1, three at `level` 2, and four at `level` 3.

    Each person makes one statement. A statement says that another person lies or tells the truth, or that two people are alike (=), differ (!), are
    both knights (&), or are not both knaves (|).
    """
    return generated_task(
        "knights_knaves",
        _knights_knaves,
        verify,
        level=level,
        levels=(1, 3),
        max_tokens=24 + 24 * level,
        chance=0.5 ** (level + 1),  # one of the 2 ** people assignments
        about='who tells the truth? "A:B lies B:A=C C:B true" -> "...=NKN" (knight, knave); level: number of people minus one',
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the completion ends in "=" and the right letter for each person, in order: K for a knight, N for a knave. Else 0.0."""
    _, marker, last = completion[-_TAIL:].rpartition("=")
    return float(bool(marker) and re.fullmatch(r"[KN]{2,4}", last.strip()) is not None and last.strip() == problem.answer)


def implied(statements: Sequence[Statement], roles: Sequence[bool]) -> tuple[bool, ...]:
    """Returns, for every person, whether the person's statement is true under `roles`. A person with a true statement must be a knight. For a solution,
    the result equals `roles`."""
    return tuple(s.holds(roles) for s in statements)


def solutions(statements: Sequence[Statement]) -> list[tuple[bool, ...]]:
    """Returns all assignments that fit the statements."""
    return [roles for roles in product((True, False), repeat=len(statements)) if implied(statements, roles) == roles]


def letters(roles: Sequence[bool]) -> str:
    return "".join("K" if knight else "N" for knight in roles)


def _knights_knaves(rng: random.Random, level: int) -> Draft:
    count = level + 1
    names = sorted(rng.sample(_NAMES, count))
    statements: list[Statement] = []
    fitting: list[tuple[bool, ...]] = []
    while len(fitting) != 1:
        statements = [_statement(rng, i, names) for i in range(count)]
        fitting = solutions(statements)
    question = " ".join(f"{name}:{s.wording}" for name, s in zip(names, statements, strict=True))
    # Other names give the same puzzle. With two people they give another puzzle, because too few puzzles would be left to hold any out.
    content = question if count == 2 else question.translate({ord(name): str(i) for i, name in enumerate(names)})
    return Draft(question, letters(fitting[0]), worked(rng, statements, fitting[0]), content, Frozen(category=str(count)))


def _statement(rng: random.Random, speaker: int, names: Sequence[str]) -> Statement:
    one = rng.choice([i for i in range(len(names)) if i != speaker])
    i, j = sorted(rng.sample(range(len(names)), 2))
    a, b = names[i], names[j]
    alone = (
        Statement(f"{names[one]} lies", lambda roles: not roles[one]),
        Statement(f"{names[one]} true", lambda roles: roles[one]),
    )
    together = (
        Statement(f"{a}={b}", lambda roles: roles[i] == roles[j]),
        Statement(f"{a}!{b}", lambda roles: roles[i] != roles[j]),
        Statement(f"{a}&{b}", lambda roles: roles[i] and roles[j]),
        Statement(f"{a}|{b}", lambda roles: roles[i] or roles[j]),
    )
    # A statement about two people often settles a puzzle immediately; chains of statements about one person make it hard.
    return rng.choice(alone if rng.random() < ALONE else together)


def worked(rng: random.Random, statements: Sequence[Statement], solution: tuple[bool, ...]) -> str:
    """Returns a worked solution: up to three random wrong assignments, then the solution, each with its implied roles: "KKN>KNN KNK>KNK=KNK"."""
    wrong = [roles for roles in product((True, False), repeat=len(statements)) if roles != solution]
    tried = [*rng.sample(wrong, rng.randint(0, min(3, len(wrong)))), solution]
    return " ".join(f"{letters(roles)}>{letters(implied(statements, roles))}" for roles in tried) + f"={letters(solution)}"
