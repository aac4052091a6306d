from __future__ import annotations

import random
from itertools import permutations

import pytest

from gradus.tasks.generated import is_held_out
from gradus.tasks.puzzles.sudoku import Contradiction, board, content, filled, solutions, sudoku, verify
from gradus.types import Key, Problem
from tests.tasks.contract import check_hostile, check_named_level, check_read_back

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}


def legal(rows: list[str]) -> bool:
    """Every row, column and box without a digit twice, written out anew."""
    n = len(rows)
    high, wide = BOXES[n]
    boxes = ["".join(rows[r + i][c : c + wide] for i in range(high)) for r in range(0, n, high) for c in range(0, n, wide)]
    lines = [*rows, *map("".join, zip(*rows, strict=True)), *boxes]
    return all(len(set(line)) == n for line in lines)


def all_small_boards() -> list[list[str]]:
    """All 4 x 4 boards: of 24^4 choices of rows, the legal ones."""
    rows = list(map("".join, permutations("1234")))
    pairs = [(a, b) for a in rows for b in rows if len(set(a[:2] + b[:2])) == 4]
    return [[*p, *q] for p in pairs for q in pairs if legal([*p, *q])]


SMALL = all_small_boards()


def count_fillings(cells: list[str], n: int) -> int:
    """How many boards keep the clues, up to two, by trying digits in the emptiest cell."""
    high, wide = BOXES[n]
    best = None
    for i, mark in enumerate(cells):
        if mark == ".":
            r, c = divmod(i, n)
            seen = set(cells[r * n : r * n + n]) | set(cells[c::n])
            seen |= {cells[(r // high * high + y) * n + c // wide * wide + x] for y in range(high) for x in range(wide)}
            free = [d for d in "123456789"[:n] if d not in seen]
            if best is None or len(free) < len(best[1]):
                best = (i, free)
    if best is None:
        return 1
    found = 0
    for digit in best[1]:
        found += count_fillings([*cells[: best[0]], digit, *cells[best[0] + 1 :]], n)
        if found > 1:
            break
    return found


def test_there_are_288_small_boards() -> None:
    assert len(SMALL) == 288


@pytest.mark.parametrize("level", [1, 2])
def test_one_of_all_small_boards_keeps_the_clues_and_only_that_is_right(level: int) -> None:
    for p in sudoku().source.draw(range(100), level, Key(1)):
        fitting = [b for b in SMALL if all(c in (".", d) for c, d in zip(p.question.replace("\n", ""), "".join(b), strict=True))]
        assert [" ".join(b) for b in fitting] == [p.answer]
        assert sum(verify(p, "=" + " ".join(b)) for b in random.Random(0).sample(SMALL, 40) if b not in fitting) == 0
        assert verify(p, "=" + p.answer) == 1.0


@pytest.mark.parametrize(("level", "count"), [(3, 40), (4, 4), (6, 4)])
def test_larger_boards_have_one_solution_that_keeps_the_rules(level: int, count: int) -> None:
    for p in sudoku().source.draw(range(count), level, Key(2)):
        rows = p.answer.split()
        assert legal(rows)
        assert all(c in (".", d) for c, d in zip(p.question.replace("\n", ""), "".join(rows), strict=True))
        assert count_fillings(list(p.question.replace("\n", "")), len(rows)) == 1


def test_worked_solutions_fill_the_board_in_an_order_that_follows() -> None:
    """Each digit found is the only one its cell can hold, or the only place for it in a row, column or box, given what stands already."""
    for level in (1, 2, 3):
        for p in sudoku().source.draw(range(60), level, Key(3)):
            rows = [list(row) for row in p.question.split()]
            n = len(rows)
            high, wide = BOXES[n]
            steps, _, answer = p.meta["solution"].partition(" =")
            cells = {(r, c): (r // high, c // wide) for r in range(n) for c in range(n)}

            def can(r: int, c: int, digit: str, rows=rows, cells=cells) -> bool:
                near = (at for at in cells if at[0] == r or at[1] == c or cells[at] == cells[r, c])
                return rows[r][c] == "." and all(rows[a][b] != digit for a, b in near)

            for step in steps.split():
                r, c, digit = int(step[0]) - 1, int(step[1]) - 1, step[2]
                assert can(r, c, digit)
                alone = not any(can(r, c, other) for other in "123456789"[:n] if other != digit)
                units = (
                    [at for at in cells if at[0] == r],
                    [at for at in cells if at[1] == c],
                    [at for at in cells if cells[at] == cells[r, c]],
                )
                assert alone or any(sum(can(*at, digit) for at in unit) == 1 for unit in units), (p.question, step)
                rows[r][c] = digit
            assert " ".join(map("".join, rows)) == answer == p.answer


def test_solutions_are_right_at_every_level_and_the_number_of_empty_cells_grows() -> None:
    task, empty = sudoku(), []
    for level, count in ((1, 200), (2, 200), (3, 200), (4, 30), (5, 30), (6, 20)):
        problems = task.source.draw(range(count), level, Key(4))
        for p in problems:
            assert verify(p, p.meta["solution"]) == 1.0
            assert verify(p, "".join(p.meta["hints"]["solution"])) == 1.0
            assert verify(p, "=" + p.answer.replace(" ", "\n")) == 1.0
            assert set(p.meta["hints"]) == {"knowledge", "planning", "solution"}
            assert p.meta["empty"] == p.question.count(".")
        empty.append(sum(p.meta["empty"] for p in problems) / count)
        check_hostile(task, level)
    assert empty == sorted(empty)
    check_named_level(task, 200, 220)
    check_read_back(task)


def test_training_and_evaluation_share_no_board_in_any_form() -> None:
    task = sudoku()
    for level, count in ((1, 100), (2, 256)):
        kept = {content(p.question, *p.meta["box"]) for p in task.held_out.draw(range(count), level, Key(1))}
        drawn = {content(p.question, *p.meta["box"]) for p in task.source.draw(range(count), level, Key(2))}
        assert not kept & drawn
        assert all(is_held_out("sudoku", c) for c in kept)
        assert len({p.question for p in task.held_out.draw(range(count), level, Key(1))}) == count
    some = task.source.draw([3, 0], None, Key(7))
    assert [(p.id, p.question, p.meta["solution"]) for p in task.source.draw([0], 2, Key(7))] == [
        (some[1].id, some[1].question, some[1].meta["solution"])
    ]


def test_one_board_in_other_words() -> None:
    rows = ["1.3.", "..1.", ".2..", "4..3"]
    turned = ["".join(row) for row in zip(*rows[::-1], strict=True)]
    renamed = [row.translate(str.maketrans("1234", "3142")) for row in rows]
    exchanged = [rows[1], rows[0], rows[2], rows[3]]
    bands = [*rows[2:], *rows[:2]]
    same = {content("\n".join(r), 2, 2) for r in (rows, turned, renamed, exchanged, bands)}
    assert len(same) == 1
    assert content("\n".join([rows[0], rows[2], rows[1], rows[3]]), 2, 2) not in same  # rows of two bands


def test_what_follows_by_hand() -> None:
    given = board(2, 2)
    # row 1 is 1 2 3 .: only 4 is left; row 2 has 3 4 . .: 1 and 2 either way, the column under 3 1 decides
    clues = [1, 2, 4, 0, 4, 8, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    filling = filled(given, clues)
    assert filling.possible[3] == 8
    assert filling.possible[6] == 2  # a 1 stands below it in column 3
    assert len(solutions(given, filled(given, [0] * 16), 1000)) == 288
    with pytest.raises(Contradiction):
        filled(given, [1, 1, *[0] * 14])


def test_answers_by_hand() -> None:
    p = Problem("x", "sudoku", messages=({"role": "user", "content": "324.\n41.3\n.43.\n..1."},), meta={"box": (2, 2)})
    right = "3241 4123 1432 2314"
    assert [verify(p, f"141 ={t}") for t in (right, right.replace(" ", ""), "3,2,4,1|4,1,2,3|1,4,3,2|2,3,1,4", right + "\n")] == [1.0] * 4
    wrong = (
        "3241 4123 1432 231",
        "4231 4123 1432 2314",
        "3241 4123 1432 2341",
        right + "1",
        right.replace("1", "１"),
        "324. 41.3 .43. ..1.",
    )
    assert [verify(p, f"={t}") for t in wrong] == [0.0] * 6


def test_the_chance_of_filling_rows_at_random() -> None:
    task, rng, right = sudoku(), random.Random(0), 0.0
    for p in task.held_out.draw(range(256), None, Key(0)):
        for _ in range(8):
            rows = []
            for row in p.question.split():
                missing = rng.sample(lacking := [d for d in "1234" if d not in row], len(lacking))
                rows.append("".join(missing.pop() if c == "." else c for c in row))
            right += verify(p, "=" + " ".join(rows))
    assert abs(right / 2048 - task.chance) < 0.02  # standard error 0.004
