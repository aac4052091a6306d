"""Decides whether two expressions are equal: exactly for rational numbers, by residues for polynomials, else by their values at sample points.

A written decimal, such as 0.333333, also equals a number that rounds to it at the sixth decimal. No number is rounded to a whole number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from gradus.tasks.maths.mathematics.terms import Term, number
from gradus.tasks.maths.mathematics.values import NUMERIC, PRIME, Valueless, approximate, exact, names, polynomial, residue

DECIMALS = 6
DIGITS = 50  # digits of the numbers that confirm equality
_SPANS = ((0.2, 0.9), (-0.9, -0.2), (1.1, 2.9))


def is_expression(term: Term) -> bool:
    """Returns whether a term consists only of numbers, names and functions."""
    return term.head in NUMERIC and all(is_expression(p) for p in term.parts if isinstance(p, Term))


def same_value(gold: Term, answer: Term) -> bool:
    """Returns whether two expressions are equal. A written decimal may be rounded. 50% equals 0.5 and also 50."""
    return any(_same_reading(g, a) for g in _readings(gold, answer) for a in _readings(answer, gold))


def _readings(term: Term, other: Term) -> list[Term]:
    """Returns the possible meanings of a term. If neither term has decimals, a percentage above 0 can also mean its bare number."""
    if term.head != "percent" or term.parts[0].head != "number" or has_decimals(term) or has_decimals(other):
        return [term]
    return [term, term.parts[0]] if term.parts[0].parts[0] > 0 else [term]


def _same_reading(gold: Term, answer: Term) -> bool:
    g, a = _exact(gold), _exact(answer)
    if g is not None and g == a:
        return True
    if (_written_out(gold) and _rounds(answer, a)) or (_written_out(answer) and _rounds(gold, g)):
        found = _rounded(gold, g)
        if found != 0:  # 0.0 does not equal every small number
            return bool(found == _rounded(answer, a))
    return (g is None or a is None) and identical(gold, answer)


def _exact(term: Term) -> Fraction | None:
    try:
        return exact(term)
    except Valueless:
        return None


def _written_out(term: Term) -> bool:
    """Returns whether a term is a single number with a decimal point, or a percentage of such a number."""
    return _written_out(term.parts[0]) if term.head == "percent" else term.head == "number" and term.parts[1]


def _rounds(term: Term, value: Fraction | None) -> bool:
    """Returns whether a value may be compared by its first decimals. A whole number without decimals must be equal exactly."""
    return value is None or value.denominator > 1 or has_decimals(term)


def has_decimals(term: Term) -> bool:
    if term.head == "number":
        return bool(term.parts[1])
    return any(has_decimals(p) for p in term.parts if isinstance(p, Term))


def _rounded(term: Term, value: Fraction | None) -> Any:
    """Rounds the value to a whole number of units of 10^-DECIMALS. Returns the term itself if the term has no real value."""
    if value is None:
        if names(term):
            return term
        try:
            found = complex(approximate(term, {}))
        except Valueless:
            return term
        if abs(found.imag) > 1e-9 or abs(found) > 1e15:
            return term
        value = Fraction(found.real)
    return round(value * 10**DECIMALS)


def identical(a: Term, b: Term) -> bool:
    """Returns whether two expressions are equal for all values of their variables, without rounding."""
    if a == b:
        return True
    try:
        if all(residue(a, point) == residue(b, point) for point in (1, 2)):
            return True
        if polynomial(a) and polynomial(b):
            return False
    except Valueless:
        return False
    return _equal_at_places(a, b)


def _equal_at_places(a: Term, b: Term) -> bool:
    """Returns whether the values agree at all sample points, except points at which neither value exists. At least one other point is needed.

    The values are compared first in double precision, which finds most unequal pairs, and then with DIGITS digits.
    """
    seen = 0
    for place in _places(names(a) | names(b)):
        pair = [_value(t, place) for t in (a, b)]
        if pair[0] is None and pair[1] is None:
            continue
        if not _near(pair, 1e-7):
            return False
        import mpmath

        with mpmath.workdps(DIGITS):
            if not _near([_value(t, place, mpmath) for t in (a, b)], 10.0 ** (15 - DIGITS)):
                return False
        seen += 1
    return seen > 0


def _near(pair: list[Any], tolerance: float) -> bool:
    a, b = pair
    return a is not None and b is not None and bool(abs(a - b) <= tolerance * max(1, abs(a)))


def _value(term: Term, place: dict[str, float], tools: Any = None) -> Any:
    try:
        return approximate(term, place, tools)
    except Valueless:
        return None


def _places(found: frozenset[str]) -> Iterator[dict[str, float]]:
    """Yields sample points for the variables: positive and small, negative, large. Without variables, yields one empty point."""
    for low, high in _SPANS if found else _SPANS[:1]:
        yield {name: low + (high - low) * _share(f"{name}:{low}") for name in found}


def _share(text: str) -> float:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little") / 2**32


def proportional(a: Term, b: Term) -> bool:
    """Returns whether `a` is `b` times a constant other than 0. The test compares residues."""
    try:
        rows = [(residue(a, point), residue(b, point)) for point in (1, 2, 3)]
        (a1, b1), *others = rows
        return all(r != 0 for row in rows for r in row) and all((a1 * y - x * b1) % PRIME == 0 for x, y in others)
    except Valueless:
        return False


def difference(left: Term, right: Term) -> Term:
    """Returns the term left - right."""
    return Term("+", (left, Term("*", (number(-1), right))))
