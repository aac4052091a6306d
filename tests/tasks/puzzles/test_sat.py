from __future__ import annotations

import itertools
import random

from gradus.tasks.puzzles.sat import sat, satisfies, searched, signature, simplified, verify
from gradus.types import Frozen, Key, Problem
from tests.tasks.contract import check_contract


def models(question: str) -> list[str]:
    """Every full assignment that fits, by an independent reading of the prompt."""
    clauses = question.split()
    letters = sorted({c.lower() for c in question if c != " "})
    every = ("".join(signs) for signs in itertools.product(*((x, x.upper()) for x in letters)))
    return [m for m in every if all(any(letter in m for letter in clause) for clause in clauses)]


def test_contract() -> None:
    check_contract(sat(), draws=60)


def test_every_assignment_is_judged_as_by_brute_force() -> None:
    task = sat()
    for level in (1, 2, 3):
        for p in task.source.draw(range(120), level, Key(0)):
            fitting = set(models(p.question))
            letters = sorted({c.lower() for c in p.question if c != " "})
            for signs in itertools.product(*((x, x.upper()) for x in letters)):
                said = "".join(signs)
                assert verify(p, f"={said}") == float(said in fitting)
            assert verify(p, "=unsat") == float(not fitting)
            assert p.meta["category"] == ("sat" if fitting else "unsat")


def test_the_search_finds_a_model_exactly_where_there_is_one() -> None:
    rng = random.Random(0)
    both = set()
    for _ in range(300):
        clauses = ["".join(rng.choice((x, x.upper())) for x in sorted(rng.sample("abcd", 2))) for _ in range(rng.randint(1, 9))]
        _, found = searched(clauses)
        assert (found is not None) == bool(models(" ".join(clauses)))
        assert found is None or satisfies(found, clauses)
        both.add(found is None)
    assert both == {True, False}


def test_a_search_by_hand() -> None:
    # B stands alone: it strikes b from ab; then a stands alone, meets nothing else and strikes A from Ac; then c stands alone.
    assert searched(["ab", "Ac", "B"]) == (["B:a,Ac", "a:c", "c:"], "Bac")
    # All four clauses of two letters: whatever a is, both b and B are left.
    assert searched(["Ab", "AB", "ab", "aB"])[1] is None
    assert simplified(["ab", "Ac", "bc"], "a") == ("c", "bc")


def test_what_counts_as_the_answer() -> None:
    p = Problem("x", "sat", answer="abC", meta=Frozen(clauses=("aB", "bc", "AC")))
    right = ["=abC", "a:b,C =baC", "=ABc", "=abC \n"]
    wrong = ["abC", "=abc", "=aC", "=aBbC", "=aabC", "=abCd", "=unsat", "=abC.", "=a b C", "=UNSAT"]
    assert [verify(p, text) for text in right] == [1.0] * len(right)
    assert [verify(p, text) for text in wrong] == [0.0] * len(wrong)
    # a false for b would leave "bc" to c, but C is asked of a: literals that meet all clauses are enough, whatever is left open
    assert satisfies("bA", ["ab", "Ac"])
    none = Problem("x", "sat", answer="unsat", meta=Frozen(clauses=("a", "A")))
    assert [verify(none, text) for text in ("=unsat", "=a", "=A", "=aA")] == [1.0, 0.0, 0.0, 0.0]


def test_the_signature_does_not_see_names_signs_and_order() -> None:
    rng = random.Random(1)
    for p in sat().source.draw(range(60), 3, Key(0)):
        letters = sorted({c.lower() for c in p.question if c != " "})
        target = rng.sample(letters, len(letters))
        flip = [rng.random() < 0.5 for _ in letters]
        table = {}
        for x, y, f in zip(letters, target, flip, strict=True):
            table |= {ord(x): y.upper() if f else y, ord(x.upper()): y if f else y.upper()}
        renamed = ["".join(sorted(clause.translate(table), key=str.lower)) for clause in p.question.split()]
        rng.shuffle(renamed)
        assert signature(renamed) == signature(p.meta["clauses"])
    assert signature(["ab", "Ab"]) != signature(["ab", "AB"])


def test_no_blind_guess_is_better_than_chance_says() -> None:
    task, rng = sat(), random.Random(0)
    problems = task.held_out.draw(range(512), None, Key(0))
    # a share of 0.2 of 512 has the standard error sqrt(0.2 * 0.8 / 512) = 0.018; contents are shared out, not problems, so three of them
    assert abs(sum(verify(p, "=unsat") for p in problems) / 512 - task.chance) < 0.054
    right = sum(verify(p, "=" + "".join(rng.choice((x, x.upper())) for x in "abcd")) for p in problems for _ in range(8))
    assert right / 4096 < task.chance
