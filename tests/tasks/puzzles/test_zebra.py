from __future__ import annotations

import random
from itertools import permutations, product

import pytest

from gradus.tasks.generated import is_held_out
from gradus.tasks.puzzles.zebra import RELATIONS, answers, content, narrowed, opened, verify, zebra
from gradus.types import Key, Problem
from tests.tasks.contract import check_hostile, check_named_level, check_read_back


def fits(question: str, rows: tuple[str, ...]) -> bool:
    """An independent reading of the prompt."""
    _, _, clues = question.partition(" | ")
    at = {name: i for row in rows for i, name in enumerate(row, 1)} | {str(i): i for i in range(1, 7)}
    for a, sign, b in clues.split():
        gap = at[b] - at[a]
        if not {":": gap == 0, "!": gap != 0, "<": gap > 0, "-": gap == 1, "~": gap in (1, -1)}[sign]:
            return False
    return True


def every(question: str) -> list[tuple[str, ...]]:
    names = question.partition(" | ")[0].split()
    return list(product(*(list(map("".join, permutations(row))) for row in names)))


@pytest.mark.parametrize(("level", "count"), [(1, 200), (2, 60), (3, 2)])
def test_exactly_one_of_all_streets_fits_and_only_that_is_right(level: int, count: int) -> None:
    rng = random.Random(0)
    for p in zebra().source.draw(range(count), level, Key(1)):
        streets = every(p.question)
        assert [" ".join(rows) for rows in streets if fits(p.question, rows)] == [p.answer]
        assert verify(p, "=" + p.answer) == 1.0
        for rows in rng.sample(streets, 30):
            assert verify(p, "=" + " ".join(rows)) == float(" ".join(rows) == p.answer)


@pytest.mark.parametrize("level", [4, 5, 6])
def test_the_clues_of_large_streets_leave_one_answer(level: int) -> None:
    """Names are placed one after the other, judged by the prompt alone."""
    for p in zebra().source.draw(range(5), level, Key(2)):
        names, _, clues = p.question.partition(" | ")
        assert fits(p.question, tuple(p.answer.split()))
        assert placed(names.split(), clues.split()) == 1


def placed(rows: list[str], clues: list[str]) -> int:
    """How many streets fit: of the names not yet placed, one with the fewest houses next."""
    houses = range(1, len(rows[0]) + 1)
    about: dict[str, list[str]] = {name: [c for c in clues if name in c] for row in rows for name in row}
    row_of = {name: row for row in rows for name in row}

    def holds(clue: str, at: dict[str, int]) -> bool:
        a, sign, b = clue
        if a not in at or (b not in at and not b.isdigit()):
            return True
        gap = (int(b) if b.isdigit() else at[b]) - at[a]
        return {":": gap == 0, "!": gap != 0, "<": gap > 0, "-": gap == 1, "~": gap in (1, -1)}[sign]

    def free(name: str, at: dict[str, int]) -> list[int]:
        taken = {at[other] for other in row_of[name] if other in at}
        return [h for h in houses if h not in taken and all(holds(c, {**at, name: h}) for c in about[name])]

    def search(at: dict[str, int]) -> int:
        left = [(len(f := free(name, at)), name, f) for name in about if name not in at]
        if not left:
            return 1
        _, name, f = min(left)
        return sum(search({**at, name: h}) for h in f)

    return search({})


def test_solutions_are_right_at_every_level() -> None:
    task = zebra()
    for level, count in ((1, 200), (2, 200), (3, 200), (4, 100), (5, 40), (6, 20)):
        for p in task.source.draw(range(count), level, Key(3)):
            assert verify(p, p.meta["solution"]) == 1.0
            assert verify(p, "".join(p.meta["hints"]["solution"])) == 1.0
            assert verify(p, "=" + ", ".join(p.answer.split()[::-1])) == 1.0  # rows in any order
            assert all(parts and all(parts) for parts in p.meta["hints"].values())
        check_hostile(task, level)
    check_named_level(task, 200, 220)
    check_read_back(task)


def test_every_line_of_a_worked_solution_keeps_the_answer() -> None:
    for level in (1, 2, 3, 4):
        for p in zebra().source.draw(range(50), level, Key(4)):
            lines = p.meta["solution"].partition(" =")[0].split()
            house = {name: str(i) for row in p.answer.split() for i, name in enumerate(row, 1)}
            last: dict[str, str] = {}
            for line in lines:
                name, houses = line[0], line[1:]
                assert house[name] in houses
                assert len(houses) < len(last.get(name, "123456"))
                last[name] = houses
            assert all(last.get(name) == h for name, h in house.items())


def told(p: Problem) -> str:
    return content(p.meta["names"], p.meta["clues"], {name: i for row in p.answer.split() for i, name in enumerate(row)})


def test_training_and_evaluation_share_no_puzzle_in_any_words() -> None:
    task = zebra()
    for level, count in ((1, 100), (2, 256)):
        kept = task.held_out.draw(range(count), level, Key(1))
        drawn = task.source.draw(range(count), level, Key(2))
        assert len({p.question for p in kept}) == count
        assert all(is_held_out("zebra", told(p)) for p in kept)
        assert not {told(p) for p in kept} & {told(p) for p in drawn}
    some, again = task.source.draw([3, 0], 4, Key(7)), task.source.draw([0], 4, Key(7))
    assert [(p.id, p.question, p.meta["solution"]) for p in some[1:]] == [(p.id, p.question, p.meta["solution"]) for p in again]


def test_what_clues_rule_out_by_hand() -> None:
    # bits of houses 1 2 3 are 1 2 4
    narrow = {sign: relation.narrow for sign, relation in RELATIONS.items()}
    assert narrow[":"](3, 6) == (2, 2)
    assert narrow["!"](2, 7) == (2, 5)
    assert narrow["!"](3, 7) == (3, 7)
    assert narrow["<"](7, 7) == (3, 6)
    assert narrow["<"](6, 7) == (2, 4)  # from 2 on: 2, with 3 after it
    assert narrow["-"](7, 6) == (3, 6)
    assert narrow["~"](7, 2) == (5, 2)
    possible = opened(["ABC"])
    assert narrowed(["ABC"], ["A:1"], possible)
    assert possible == {"A": 1, "B": 6, "C": 6}
    assert not narrowed(["ABC"], ["A<B", "B<A"], opened(["ABC"]))
    assert not narrowed(["ABC"], ["A:1", "B:1"], opened(["ABC"]))
    assert len(answers(["ABC", "uvw"], [], opened(["ABC", "uvw"]), 100)) == 36
    assert answers(["ABC"], ["A<B", "B<C"], opened(["ABC"]), 9) == [{"A": 1, "B": 2, "C": 4}]


def test_answers_by_hand() -> None:
    p = Problem("x", "zebra", meta={"names": ("ABC", "uvw"), "clues": ("C<B", "w:1", "B<u")})
    assert [verify(p, f"C12 ={s}") for s in ("CBA wvu", "CBA, wvu", "wvu CBA", "CBA\nwvu")] == [1.0] * 4
    assert [verify(p, f"={s}") for s in ("BCA wvu", "CBA", "CBA wvu wvu", "CBA wvv", "cba wvu", "C B A w v u", "CBAwvu")] == [0.0] * 7


def test_one_puzzle_in_other_words() -> None:
    names, clues, house = ("ABC", "uvw"), ("C<B", "w:1", "B<u"), {"C": 0, "B": 1, "A": 2, "w": 0, "v": 1, "u": 2}
    original = content(names, clues, house)
    # A for C, C for A; v for w, w for v; clues in another order
    assert content(names, ("v:1", "A<B", "B<u"), {"A": 0, "B": 1, "C": 2, "v": 0, "w": 1, "u": 2}) == original
    # seen from the other side: left is right, house 1 is 3
    assert content(names, ("B<C", "w:3", "u<B"), {"A": 0, "B": 1, "C": 2, "u": 0, "v": 1, "w": 2}) == original
    # the rows exchanged: u v w for A B C
    assert content(names, ("w<v", "C:1", "v<A"), {"w": 0, "v": 1, "u": 2, "C": 0, "B": 1, "A": 2}) == original
    assert content(names, ("C<B", "w:1", "v<u"), house) != original
