"""Sudoku of 4 x 4 answered whole: one solution, the split by board, the verifier."""

from __future__ import annotations

import pytest

from gradus.tasks.generated import is_held_out
from gradus.tasks.puzzles.sudoku import board, filled, solutions
from gradus.tasks.puzzles.sudoku4 import sudoku4, verify
from gradus.types import Key


@pytest.mark.parametrize(("level", "empty"), [(1, {4, 5, 6}), (2, {7, 8, 9}), (3, {10}), (4, {11, 12})])
def test_boards_have_one_solution(level, empty):
    for p in sudoku4().source.draw(range(20), level, Key(1)):
        assert p.question.count(".") in empty
        clues = [0 if c == "." else 1 << (int(c) - 1) for c in p.question]
        found = solutions(board(2, 2), filled(board(2, 2), clues), 2)
        assert ["".join(str(bit.bit_length()) for bit in full) for full in found] == [p.answer]
        assert verify(p, p.answer) == 1.0


def test_no_board_of_training_is_held_out():
    task = sudoku4()
    trained = {p.answer for p in task.source.draw(range(300), 3, Key(0))}
    kept = {p.answer for p in task.held_out.draw(range(100), 3, Key(0))}
    assert not trained & kept
    assert all(is_held_out("sudoku4", answer) for answer in kept)
    assert 20 < len(kept) < 288 * 0.2


def test_the_verifier():
    (p,) = sudoku4().source.draw([0], 3, Key(0))
    assert verify(p, f" {p.answer}\n") == 1.0
    assert verify(p, p.answer[:-1]) == 0.0
    assert verify(p, p.answer[:-1] + "x") == 0.0
    assert verify(p, p.answer[::-1]) == 0.0  # breaks a clue or a rule
    assert verify(p, "1234" * 4) == 0.0
