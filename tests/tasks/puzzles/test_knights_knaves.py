from __future__ import annotations

import itertools
import re

from gradus.tasks.puzzles.knights_knaves import Statement, implied, knights_knaves, letters, solutions, verify
from gradus.types import Key, Problem


def fits(question: str, answer: str) -> bool:
    """An independent reading of the prompt: everyone's words are true exactly if he is a knight."""
    said = re.findall(r"(\w):(\S+(?: lies| true)?)", question)
    knight = {name: role == "K" for (name, _), role in zip(said, answer, strict=True)}

    def truth(words: str) -> bool:
        if " " in words:
            name, what = words.split()
            return knight[name] == (what == "true")
        a, sign, b = words
        return {"=": knight[a] == knight[b], "!": knight[a] != knight[b], "&": knight[a] and knight[b], "|": knight[a] or knight[b]}[sign]

    return all(truth(words) == knight[name] for name, words in said)


def test_exactly_one_assignment_fits() -> None:
    task = knights_knaves()
    for level in (1, 2, 3):
        for p in task.source.draw(range(100), level, Key(0)):
            every = ["".join(roles) for roles in itertools.product("KN", repeat=level + 1)]
            assert [roles for roles in every if fits(p.question, roles)] == [p.answer]


def test_a_puzzle_by_hand() -> None:
    # A: B lies.  B: A and B are alike.  If A is a knight, B lies, and they differ, so B's words are false: it fits. If A is a knave, B is
    # true, so they are alike, but a knave and a knight are not: it does not fit.
    statements = [Statement("B lies", lambda r: not r[1]), Statement("A=B", lambda r: r[0] == r[1])]
    assert solutions(statements) == [(True, False)]
    assert implied(statements, (False, True)) == (False, False)
    assert letters((True, False)) == "KN"


def test_a_worked_solution_ends_at_the_assignment_that_implies_itself() -> None:
    for p in knights_knaves().source.draw(range(100), None, Key(0)):
        *tries, last = p.meta["solution"].split()
        assert last == f"{p.answer}>{p.answer}={p.answer}"
        assert all(a != b for a, b in (t.split(">") for t in tries))
        assert len(set(tries)) == len(tries) <= 3


def test_what_counts_as_the_answer() -> None:
    p = Problem("x", "knights_knaves", answer="KNK")
    assert [verify(p, text) for text in ("=KNK", "KNK>KNK=KNK ", "KNK", "=KN", "=knk", "=KNK=NNN", "=KNKN")] == [
        1.0,
        1.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
    ]


def test_every_answer_is_about_as_likely() -> None:
    found = [p.answer for p in knights_knaves().source.draw(range(800), None, Key(0))]
    assert (
        max(found.count(a) for a in set(found)) < 800 * 0.25
    )  # the best guess without reading is right less than twice as often as chance
