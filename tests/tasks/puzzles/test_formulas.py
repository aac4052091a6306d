from __future__ import annotations

import random

from gradus.tasks.puzzles.formulas import Formula, World, drawn, letters, negation, rewritten, rows, true_in, true_under
from gradus.types import Frozen

P, Q = Formula("p"), Formula("q")


def test_writing_and_values_by_hand() -> None:
    formula = Formula(">", (Formula("&", (P, negation(Q))), Formula("~", (Formula("|", (P, Q)),))))
    assert str(formula) == "(p&~q)>~(p|q)"
    assert letters(formula) == "pq"
    # p=1, q=0: p&~q is 1, p|q is 1, its negation 0, and 1>0 is 0; with q=1 the left side is 0, which implies anything
    assert [true_under(formula, row) for row in rows("pq")] == [True, True, False, True]
    assert [true_under(Formula("<>", (P, Q)), row) for row in rows("pq")] == [True, False, False, True]
    assert negation(negation(P)) == P


def test_a_world_by_hand() -> None:
    world = World(3, Frozen(P=frozenset({(0,), (2,)}), R=frozenset({(0, 1), (1, 2)})))
    edge = Formula("R", variables="xy")
    some = Formula("E", (Formula("&", (edge, Formula("P", variables="y"))),), "y")  # x is in R with a P
    assert str(some) == "Ey(Rxy&Py)"
    assert [true_in(some, world, {"x": x}) for x in range(3)] == [False, True, False]  # 0-1 is no P, 1-2 is one, 2 has none
    every = Formula("A", (Formula(">", (edge, Formula("P", variables="y"))),), "y")
    assert [true_in(every, world, {"x": x}) for x in range(3)] == [False, True, True]  # 2 is in R with nothing
    assert not true_in(Formula("A", (some,), "x"), world, {})
    assert true_in(Formula("E", (some,), "x"), world, {})


def test_rewriting_keeps_the_meaning() -> None:
    rng, changed = random.Random(0), 0
    for _ in range(300):
        formula = drawn(rng, "pqrs", rng.randint(1, 7))
        other = rewritten(rng, formula, 5)
        assert all(true_under(formula, row) == true_under(other, row) for row in rows("pqrs"))
        changed += str(other) != str(formula)
    assert changed > 200
