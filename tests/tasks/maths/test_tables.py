"""Tables: answers computed again from the table, the forms of an answer that count, and the split."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gradus.tasks.maths.tables import KINDS, tables, verify
from gradus.types import Frozen, Key, Problem, UserError


def rows_of(problem: Problem) -> dict[str, int]:
    return {n: int(c) for n, c in (line.split("|") for line in problem.meta["table"].split("\n")[1:])}


@pytest.mark.parametrize("level", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_follow_from_the_table(kind: str, level: int) -> None:
    for p in tables(level, kind).source.draw(range(20), None, Key(3)):
        rows, question = rows_of(p), p.question.split("\n")[-1]
        assert len(rows) == level + 2
        assert p.meta["category"] == kind
        if kind == "most":
            assert rows[p.answer] == max(rows.values())
        elif kind == "value":
            assert int(p.answer) == rows[question.split()[2].rstrip("?")]
        else:
            assert Fraction(p.answer) == Fraction(sum(rows.values()), 1 if kind == "total" else len(rows))
        assert verify(p, p.meta["solution"]) == 1.0
        assert verify(p, "=none") == 0.0


@pytest.mark.parametrize(
    ("answer", "options", "said", "right"),
    [
        ("2.5", (), "x=2.50", 1.0),
        ("1250", (), "=1,250", 1.0),
        ("1250", (), "1250", 0.0),
        ("bob", ("ann", "bob"), "=(B)", 1.0),
        ("bob", ("ann", "bob"), "=Bob.", 1.0),
        ("bob", ("ann", "bob"), "=a", 0.0),
        ("2.5", (), "=2.6", 0.0),
    ],
)
def test_the_forms_of_an_answer(answer: str, options: tuple[str, ...], said: str, right: float) -> None:
    assert verify(Problem("p", "tables", text="q", answer=answer, meta=Frozen(options=options)), said) == right


def test_a_training_set_has_a_size_and_shares_nothing_with_the_held_out_one() -> None:
    task = tables(problems=160)
    assert (task.source.size, tables().source.size, task.held_out.size) == (160, None, None)
    contents = [
        {f"{p.meta['category']} {sorted(rows_of(p).values())}" for p in s.draw(range(160), None, Key(0))}
        for s in (task.source, task.held_out)
    ]
    assert not contents[0] & contents[1]
    with pytest.raises(UserError, match="`problems` is 0; give 1 or more"):
        tables(problems=0)


def test_the_numbers_of_a_table_have_a_largest_one() -> None:
    for level in (1, 4):
        found = [n for p in tables(level, largest=9).source.draw(range(60), None, Key(2)) for n in rows_of(p).values()]
        assert (min(found), max(found)) == (2, 9)
    with pytest.raises(UserError, match="`largest` is 8, which gives too few numbers for a table; give 9 or more"):
        tables(largest=8)


@pytest.mark.parametrize(("level", "kinds", "chance"), [(1, "all", 1 / 12), (1, "most", 1 / 3), (4, "value,most", 1 / 12), (2, "value,mean", 0.0)])
def test_chance_is_that_of_an_option(level: int, kinds: str, chance: float) -> None:
    assert tables(level, kinds).chance == pytest.approx(chance)  # the share of questions with options over their level + 2 options
