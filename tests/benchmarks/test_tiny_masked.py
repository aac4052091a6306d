"""The corpus of the built-in masked model: slips where the board is empty, at their share, and no held-out board."""

from __future__ import annotations

import random

from benchmarks import tiny_masked
from gradus.tasks.puzzles.sudoku4 import sudoku4
from gradus.types import Key


def test_slips_are_wrong_digits_of_empty_cells_at_their_share():
    (problem,) = sudoku4().source.draw([0], 3, Key(0))
    rng, wrong = random.Random(0), 0
    for _ in range(1000):
        said = tiny_masked.with_slips(problem.question, problem.answer, rng)
        assert set(said) <= set("1234")
        assert all(clue in (".", digit) for clue, digit in zip(problem.question, said, strict=True))
        wrong += sum(a != b for a, b in zip(said, problem.answer, strict=True))
    assert abs(wrong / (1000 * problem.question.count(".")) - tiny_masked.SLIPS) < 0.01  # 10,000 cells: standard error 0.0027


def unlike(begin, steps):
    """The share of answers of the last of `steps` steps that are not the right one, with prompts and special tokens never hidden."""
    *_, (tokens, hidden) = tiny_masked.boards(begin, steps, Key(0))
    source, words = sudoku4().source, tiny_masked.WORDS
    said = ["".join(words[t] for t in row) for row in tokens[:, -16:].tolist()]
    right = [source.draw([begin * tiny_masked.ROWS + i], tiny_masked.LEVELS[i % 4], Key(0))[0].answer for i in range(tiny_masked.ROWS)]
    assert not hidden[:, :-16].any()
    return sum(a != b for a, b in zip(said, right, strict=True)) / tiny_masked.ROWS


def test_only_the_last_third_has_slips():
    # step 0 of 1 is before two thirds, step 3 of 4 after; of 8.25 empty cells on average 1 - 0.92^8.25 = 0.50 of the answers have a slip
    assert unlike(0, 1) == 0
    assert 0.3 < unlike(3, 4) < 0.7
