"""Decides whether an answer equals the gold answer.

The gold answer decides which forms are accepted. If the gold answer is an ordered tuple, the members of the answer must be in the same order. If the gold
answer is a set, the members may be in any order. One of the two answers may be a bare value, and the other an equation (5 and x = 5). If the gold answer is
an inequality, an interval is accepted. If the gold answer is an interval, an inequality is not accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradus.tasks.maths.mathematics.expressions import difference, identical, is_expression, proportional, same_value
from gradus.tasks.maths.mathematics.regions import same_region
from gradus.tasks.maths.mathematics.terms import INFINITY, Term, negative
from gradus.tasks.maths.mathematics.values import names

MOST = 32  # members of a set that are compared
REGIONS = frozenset(["union", "intersection", "difference", "reals"])
FLIPPED = {"<": ">", "<=": ">="}


def same(gold: Term, answer: Term) -> bool:
    """Returns whether the answer is right."""
    gold, answer = plain(gold), plain(answer)
    if gold == answer:
        return True
    if states(gold) and states(answer):
        return same_statements(gold, answer)
    if states(gold):
        meant = region_of(gold) if equations(gold) is None else said(gold) if _of_something(gold) else None
        return meant is not None and same(meant, answer)
    if states(answer):
        meant = said(answer)
        return meant is not None and same(gold, meant)
    return same_objects(gold, answer)


def plain(term: Term) -> Term:
    """Returns a normal form: a set of one value becomes the value; x = 1, x = 2 becomes x = {1, 2}; a matrix times numbers becomes a matrix."""
    if term.head == "*" and sum(p.head == "matrix" for p in term.parts) == 1:
        (rows,) = (p.parts for p in term.parts if p.head == "matrix")
        factors = tuple(p for p in term.parts if p.head != "matrix")
        return Term("matrix", tuple(tuple(Term("*", (*factors, cell)) for cell in row) for row in rows))
    if term.head == "set" and len(term.parts) == 1 and term.parts[0].head not in ("interval", "tuple", "set"):
        return plain(term.parts[0])
    found = equations(term)
    if found is not None and len(found) > 1 and all(r.parts[1] == found[0].parts[1] for r in found):
        values: list[Term] = []
        for r in found:
            values += r.parts[2].parts if r.parts[2].head == "set" else (r.parts[2],)
        return Term("relation", ("=", found[0].parts[1], Term("set", tuple(values))))
    return term


def states(term: Term) -> bool:
    """Returns whether a term is a statement: a relation, a chain, or a set of these."""
    return term.head in ("relation", "chain") or (
        term.head == "set" and bool(term.parts) and all(p.head in ("relation", "chain") for p in term.parts)
    )


def equations(term: Term) -> tuple[Term, ...] | None:
    """Returns the equations of a term; None if the term contains anything else."""
    found = term.parts if term.head == "set" else (term,)
    return found if found and all(p.head == "relation" and p.parts[0] == "=" for p in found) else None


def said(term: Term) -> Term | None:
    """Returns the right side of an equation, or the set of the right sides of several equations; None for other statements."""
    found = equations(term)
    if found is None:
        return None
    return found[0].parts[2] if term.head == "relation" else Term("set", tuple(r.parts[2] for r in found))


def _of_something(term: Term) -> bool:
    """Returns whether every left side has a variable. If so, the right sides alone are an answer. This excludes 2 + 3 = 5."""
    return all(names(r.parts[1]) for r in equations(term) or ())


def region_of(term: Term) -> Term | None:
    """Returns the interval that an inequality in one variable, or a chain of two inequalities, describes; None for any other statement."""
    found = term.parts if term.head == "chain" else (term,)
    low, high, opening, closing, about = negative(INFINITY), INFINITY, "(", ")", set()
    for relation in found:
        if relation.head != "relation" or relation.parts[0] not in ("<", "<=", ">", ">="):
            return None
        kind, left, right = relation.parts
        kind, left, right = (FLIPPED[kind], right, left) if kind in FLIPPED else (kind, left, right)  # left is the greater side
        mark = kind == ">="
        if left.head == "symbol" and not names(right):
            low, opening = right, "[" if mark else "("
            about.add(left)
        elif right.head == "symbol" and not names(left):
            high, closing = left, "]" if mark else ")"
            about.add(right)
        else:
            return None
    return Term("interval", (opening, low, high, closing)) if len(about) == 1 else None


def same_statements(gold: Term, answer: Term) -> bool:
    """Returns whether two statements, or two sets of statements in any order, agree."""
    region, of = region_of(gold), equations(answer)
    if region is not None and of is not None and len(of) == 1:
        return same(region, of[0].parts[2])
    g, a = _single(gold), _single(answer)
    return matched(g, a, same_statement)


def _single(term: Term) -> tuple[Term, ...]:
    """Splits a statement into single relations: (x, y) = (1, 2) gives x = 1 and y = 2."""
    if term.head != "relation":
        return term.parts if term.head == "set" else (term,)
    kind, left, right = term.parts
    rows = [_members(side) for side in (left, right)]
    if kind == "=" and rows[0] and len(rows[0]) == len(rows[1]):
        return tuple(Term("relation", ("=", x, y)) for x, y in zip(*rows, strict=True))
    return (term,)


def same_statement(gold: Term, answer: Term) -> bool:
    """Returns whether two relations are equal. Terms may be moved from one side to the other.

    Equations in two or more variables may also differ by a factor. Equations in one variable may not differ by a factor: if x = 5 is asked for, 2x =
    10 is not accepted.
    """
    if gold.head == answer.head == "chain":
        return matched(gold.parts, answer.parts, same_statement)
    if gold.head != "relation" or answer.head != "relation":
        return False
    (kind, *g), (other, *a) = _greater(gold), _greater(answer)
    if kind != other:
        return False
    if not all(is_expression(side) for side in (*g, *a)):
        return kind == "=" and same(g[0], a[0]) and same(g[1], a[1])
    left, right = difference(*g), difference(*a)
    if identical(left, right) or (kind in ("=", "!=") and identical(left, difference(*a[::-1]))):
        return True
    return kind == "=" and len(names(left)) > 1 and proportional(left, right)


def _greater(relation: Term) -> tuple[str, Term, Term]:
    """Returns the relation with its greater side first."""
    kind, left, right = relation.parts
    return (FLIPPED[kind], right, left) if kind in FLIPPED else (kind, left, right)


def _members(term: Term) -> tuple[Term, ...]:
    """Returns the members of a tuple. For an open interval, returns its two ends, because (1, 2) may be a point."""
    if term.head == "interval":
        return term.parts[1:3] if (term.parts[0], term.parts[3]) == ("(", ")") else ()
    return term.parts if term.head == "tuple" else ()


def same_objects(gold: Term, answer: Term) -> bool:
    """Returns whether two terms that are not statements are equal."""
    if is_expression(gold) and is_expression(answer):
        return same_value(gold, answer)
    if gold.head == "set" and answer.head == "set":
        return matched(distinct(gold.parts), distinct(answer.parts), same)
    if gold.head == "set" and _members(answer):
        return matched(distinct(gold.parts), distinct(_members(answer)), same)
    if _members(gold) and answer.head == "set":
        return in_order(_members(gold), distinct(answer.parts))
    if _members(gold) and _members(answer):
        return in_order(_members(gold), _members(answer))
    if gold.head == "interval" and answer.head == "interval":
        pair = (gold.parts, answer.parts)
        return pair[0][::3] == pair[1][::3] and in_order(pair[0][1:3], pair[1][1:3])
    if gold.head in REGIONS or answer.head in REGIONS:
        return same_region(gold, answer)
    if gold.head == answer.head == "matrix":
        rows = (gold.parts, answer.parts)
        return len(rows[0]) == len(rows[1]) and all(in_order(g, a) for g, a in zip(*rows, strict=True))
    return gold.head == answer.head == "tuple" and in_order(gold.parts, answer.parts)


def in_order(gold: Sequence[Term], answer: Sequence[Term]) -> bool:
    return len(gold) == len(answer) <= MOST and all(same(g, a) for g, a in zip(gold, answer, strict=True))


def distinct(members: Sequence[Term]) -> list[Term]:
    """Returns the members without repetitions, in order of first appearance.

    More than MOST members are returned unchanged, because such sets are not compared.
    """
    if len(members) > MOST:
        return list(members)
    kept: list[Term] = []
    for member in members:
        if not any(member == k or (is_expression(member) and is_expression(k) and identical(member, k)) for k in kept):
            kept.append(member)
    return kept


def matched(gold: Sequence[Term], answer: Sequence[Term], equal: Callable[[Term, Term], bool]) -> bool:
    """Returns whether every member of `gold` can be paired with an equal member of `answer`, one to one."""
    if len(gold) != len(answer) or len(gold) > MOST:
        return False
    left = list(answer)
    for member in gold:
        partner = next((n for n, other in enumerate(left) if equal(member, other)), None)
        if partner is None:
            return False
        del left[partner]
    return True
