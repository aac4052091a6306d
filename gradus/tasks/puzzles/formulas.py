"""Formulas of propositional and first-order logic: notation, truth in a finite world, and random formulas.

The signs are ~ (not), & (and), | (or), > (implies) and <> (equivalent). Ax is "for all x", and Ex is "for some x". Px and Rxy are atoms.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

CONNECTIVES = ("&", "|", ">", "<>")


@dataclass(frozen=True)
class Formula:
    """A formula: its sign and its parts.

    The sign is a letter such as "p", the "P" or "R" of an atom, "~", a connective, or "A" or "E". `variables`: the variables of an atom, or the
    variable of "A" or "E".
    """

    sign: str
    parts: tuple[Formula, ...] = ()
    variables: str = ""

    def __str__(self) -> str:
        if self.sign in CONNECTIVES:
            return self.sign.join(f"({part})" if part.sign in CONNECTIVES else str(part) for part in self.parts)
        inside = "".join(f"({part})" if part.sign in CONNECTIVES else str(part) for part in self.parts)
        return f"{self.sign}{self.variables}{inside}"


@dataclass(frozen=True)
class World:
    """Things 0 to size - 1. Some things are P, some things are Q, and some pairs of things are in R and S."""

    size: int
    facts: Mapping[str, frozenset[tuple[int, ...]]]


def letters(formula: Formula) -> str:
    """Returns the letters of a propositional formula, in order of first appearance."""
    own = "" if formula.parts else formula.sign
    return "".join(dict.fromkeys(own + "".join(letters(part) for part in formula.parts)))


def joined(sign: str, values: Sequence[bool]) -> bool:
    """Returns the value of a negation or connective, given the values of its parts."""
    if sign == "~":
        return not values[0]
    a, b = values
    return {"&": a and b, "|": a or b, ">": b or not a, "<>": a == b}[sign]


def true_under(formula: Formula, values: Mapping[str, bool]) -> bool:
    """Returns the value of a propositional formula, given its letters' values."""
    if not formula.parts:
        return values[formula.sign]
    return joined(formula.sign, [true_under(part, values) for part in formula.parts])


def true_in(formula: Formula, world: World, things: Mapping[str, int]) -> bool:
    """Returns the value of a first-order formula in a world. `things` maps each free variable to its thing."""
    if formula.sign in ("A", "E"):
        (inside,) = formula.parts
        values = (true_in(inside, world, {**things, formula.variables: thing}) for thing in range(world.size))
        return all(values) if formula.sign == "A" else any(values)
    if not formula.parts:
        return tuple(things[v] for v in formula.variables) in world.facts[formula.sign]
    return joined(formula.sign, [true_in(part, world, things) for part in formula.parts])


def rows(names: str) -> list[dict[str, bool]]:
    """Returns all assignments to the letters, in the order 00, 01, 10, 11."""
    return [dict(zip(names, row, strict=True)) for row in product((False, True), repeat=len(names))]


def drawn(rng: random.Random, names: str, size: int) -> Formula:
    """Returns a random formula with `size` connectives over the letters. Each letter or part may be negated."""
    if size == 0:
        return _negated(rng, Formula(rng.choice(names)), 0.25)
    left = rng.randrange(size)
    first, second = drawn(rng, names, left), drawn(rng, names, size - 1 - left)
    while letters(first) == letters(second) and size == 1:  # p&p, p>~p are too simple
        second = drawn(rng, names, 0)
    sign = rng.choices(CONNECTIVES, (3, 3, 3, 1))[0]
    return _negated(rng, Formula(sign, (first, second)), 0.15)


def _negated(rng: random.Random, formula: Formula, share: float) -> Formula:
    return Formula("~", (formula,)) if rng.random() < share else formula


def rewritten(rng: random.Random, formula: Formula, count: int) -> Formula:
    """Returns an equivalent formula. Up to `count` laws are applied to `formula` at random positions."""
    for _ in range(count):
        formula = _once(rng, formula)
    return formula


def _once(rng: random.Random, formula: Formula) -> Formula:
    """Applies one law at one position: exchange of sides, contraposition, > written with |, De Morgan, negation of both sides of <>, removal of a double
    negation."""
    inner = [i for i, part in enumerate(formula.parts) if part.parts]
    if inner and rng.random() < 0.5:
        i = rng.choice(inner)
        parts = tuple(_once(rng, part) if i == j else part for j, part in enumerate(formula.parts))
        return Formula(formula.sign, parts)
    if not formula.parts:
        return formula
    a, b = (*formula.parts, *formula.parts)[:2]
    if formula.sign == "~":
        flipped = {"&": "|", "|": "&"}.get(a.sign)
        if flipped:
            return Formula(flipped, tuple(negation(part) for part in a.parts))
        return a.parts[0] if a.sign == "~" else formula
    if formula.sign == ">":
        return rng.choice((Formula(">", (negation(b), negation(a))), Formula("|", (negation(a), b))))
    if formula.sign == "<>":
        return rng.choice((Formula("<>", (b, a)), Formula("<>", (negation(a), negation(b)))))
    other = "|" if formula.sign == "&" else "&"
    return rng.choice((Formula(formula.sign, (b, a)), negation(Formula(other, (negation(a), negation(b))))))


def negation(formula: Formula) -> Formula:
    """Returns the negation of a formula. A double negation is removed."""
    return formula.parts[0] if formula.sign == "~" else Formula("~", (formula,))
