"""A parsed answer: a tree of terms. A term has a head and parts. Two terms are equal if their heads and parts are equal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple


class Unreadable(ValueError):
    """The error for a text that is too long, or is not mathematics of a known form."""


class Term(NamedTuple):
    """The head determines the parts. Heads and their parts:

    - number: value (Fraction), whether it was written with a decimal point
    - symbol: name
    - + or *: terms
    - ^: base, exponent
    - call: name of a function, arguments
    - percent: the number before %
    - set or tuple: members in the order written
    - interval: opening bracket, low, high, closing bracket
    - union, intersection or difference: two regions
    - reals: no parts
    - relation: = != < <= > >=, left, right
    - chain: relations that share their ends (1 < x < 5)
    - matrix: rows, each a tuple of terms
    """

    head: str
    parts: tuple[Any, ...]


def number(value: int | Fraction, decimal: bool = False) -> Term:
    return Term("number", (Fraction(value), decimal))


def symbol(name: str) -> Term:
    return Term("symbol", (name,))


def call(name: str, *arguments: Term) -> Term:
    return Term("call", (name, *arguments))


def product(factors: list[Term]) -> Term:
    return factors[0] if len(factors) == 1 else Term("*", tuple(factors))


def inverse(term: Term) -> Term:
    return Term("^", (term, number(-1)))


def negative(term: Term) -> Term:
    """Returns the negative of a term. The negative of a number is again a number, such as -3."""
    if term.head == "number":
        return Term("number", (-term.parts[0], term.parts[1]))
    return Term("*", (number(-1), term))


def members(items: list[Term]) -> Term:
    """Joins several statements into one term: "x = 1, 2" becomes x = {1, 2}; other statements become a set of statements."""
    first, rest = items[0], items[1:]
    if first.head == "relation" and first.parts[0] == "=" and all(r.head not in ("relation", "chain") for r in rest):
        return Term("relation", ("=", first.parts[1], Term("set", (first.parts[2], *rest))))
    return Term("set", tuple(items))


def whole_fraction(term: Term) -> bool:
    """Returns whether a term is a whole number divided by a whole number."""
    return term.head == "*" and len(term.parts) == 2 and term.parts[0].head == "number" and denominator(term.parts[1]) > 0


def denominator(term: Term) -> int:
    if term.head != "^" or term.parts[1] != number(-1) or term.parts[0].head != "number" or term.parts[0].parts[1]:
        return 0
    return int(term.parts[0].parts[0])


def rational(term: Term) -> Fraction:
    """Returns the value of a fraction of whole numbers."""
    return term.parts[0].parts[0] / denominator(term.parts[1])


INFINITY = symbol("\\infty")
PI, EULER, IMAGINARY = symbol("\\pi"), symbol("\\e"), symbol("\\i")
"""Names of constants begin with a backslash. So no variable has the name of a constant."""
REALS = Term("reals", ())
