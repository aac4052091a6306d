"""Represents sets of real numbers by pieces: intervals and points in ascending order, with gaps between them."""

from __future__ import annotations

import math
from typing import NamedTuple

from gradus.tasks.maths.mathematics.expressions import same_value
from gradus.tasks.maths.mathematics.terms import INFINITY, Term, negative
from gradus.tasks.maths.mathematics.values import Valueless, approximate, exact, names

MOST = 64  # largest number of pieces


class Piece(NamedTuple):
    """The numbers from `low` to `high`. `low_in`, `high_in`: whether the end belongs to the piece. `low_term`, `high_term`: the ends as the text writes them."""

    low: float
    low_in: bool
    high: float
    high_in: bool
    low_term: Term
    high_term: Term


def real(term: Term) -> float:
    """Returns the value of an end of a piece: a real number or an infinity. Raises Valueless for any other end."""
    if term == INFINITY:
        return math.inf
    if term == negative(INFINITY):
        return -math.inf
    if names(term):
        raise Valueless("a variable")
    try:
        return float(exact(term))
    except (Valueless, OverflowError):
        value = complex(approximate(term, {}))
    if abs(value.imag) > 1e-9:
        raise Valueless("complex")
    return value.real


def pieces(term: Term) -> list[Piece]:
    """Returns the pieces of a region. Raises Valueless if the region is not a set of real numbers, or joins more than MOST pieces."""
    if term.head == "reals":
        return [Piece(-math.inf, False, math.inf, False, negative(INFINITY), INFINITY)]
    if term.head == "interval":
        opening, low, high, closing = term.parts
        found = Piece(real(low), opening == "[", real(high), closing == "]", low, high)
        return [found] if found.low < found.high or (found.low == found.high and found.low_in and found.high_in) else []
    if term.head == "set":
        return joined([Piece(real(p), True, real(p), True, p, p) for p in term.parts])
    if term.head not in ("union", "intersection", "difference"):
        raise Valueless(term.head)
    left, right = pieces(term.parts[0]), pieces(term.parts[1])
    if len(left) + len(right) > MOST:
        raise Valueless("too many pieces")
    if term.head == "union":
        return joined(left + right)
    return common(left, right if term.head == "intersection" else complement(right))


def joined(found: list[Piece]) -> list[Piece]:
    """Sorts the pieces, and merges pieces that touch."""
    done: list[Piece] = []
    for piece in sorted(found, key=lambda p: (p.low, not p.low_in)):
        last = done[-1] if done else None
        if last is None or last.high < piece.low or (last.high == piece.low and not (last.high_in or piece.low_in)):
            done.append(piece)
        elif (piece.high, piece.high_in) > (last.high, last.high_in):
            done[-1] = last._replace(high=piece.high, high_in=piece.high_in, high_term=piece.high_term)
    return done


def common(left: list[Piece], right: list[Piece]) -> list[Piece]:
    """Returns the intersection of two regions."""
    found = []
    for a in left:
        for b in right:
            low = max(a, b, key=lambda p: (p.low, not p.low_in))
            high = min(a, b, key=lambda p: (p.high, p.high_in))
            both = Piece(low.low, low.low_in, high.high, high.high_in, low.low_term, high.high_term)
            if both.low < both.high or (both.low == both.high and both.low_in and both.high_in):
                found.append(both)
    return joined(found)


def complement(found: list[Piece]) -> list[Piece]:
    """Returns the pieces of all real numbers outside the given pieces."""
    edges, low, low_in, term = [], -math.inf, False, negative(INFINITY)
    for piece in found:
        if low < piece.low or (low == piece.low and low_in and not piece.low_in):
            edges.append(Piece(low, low_in, piece.low, not piece.low_in, term, piece.low_term))
        low, low_in, term = piece.high, not piece.high_in, piece.high_term
    if low < math.inf:
        edges.append(Piece(low, low_in, math.inf, False, term, INFINITY))
    return edges


def same_region(gold: Term, answer: Term) -> bool:
    """Returns whether two regions contain the same numbers. The ends of the regions are compared with `same_value`."""
    try:
        g, a = pieces(gold), pieces(answer)
    except Valueless:
        return False
    return len(g) == len(a) and all(
        (x.low_in, x.high_in) == (y.low_in, y.high_in) and _same_end(x.low_term, y.low_term) and _same_end(x.high_term, y.high_term)
        for x, y in zip(g, a, strict=True)
    )


def _same_end(gold: Term, answer: Term) -> bool:
    return gold == answer or same_value(gold, answer)
