"""Sudoku of 4 x 4 cells. The answer is only the 16 digits of the full board, in the order of the cells.

There are only 288 full boards, and the answer contains the digit of every empty cell. So the split is by full board, not by puzzle.
"""

from __future__ import annotations

import random
from dataclasses import replace

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.puzzles.sudoku import board, filled, solutions
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_EMPTY = {1: (4, 6), 2: (7, 9), 3: (10, 10), 4: (11, 12)}  # fewest and most empty cells of a level
_CELLS = 16
_CHANCE = 0.0  # success of random digits; every board has one solution
_BOARD = board(2, 2)


def sudoku4(level: int = 3) -> Task:
    """Boards of 4 x 4 cells with one solution. The number of empty cells is 4 to 6 at `level` 1, 7 to 9 at `level` 2, 10 at `level` 3, and 11 or 12 at `level`
    4."""
    made = generated_task(
        "sudoku4",
        _draft,
        verify,
        level=level,
        levels=(min(_EMPTY), max(_EMPTY)),
        max_tokens=_CELLS,
        chance=_CHANCE,
        about='4 x 4 sudoku for masked models: 16 cells row by row, "." for an empty one -> the 16 digits of the full board',
    )
    return replace(made, policy="masked")


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 for 16 digits that keep the clues and the rules of sudoku; else 0.0. White space at both ends is ignored."""
    digits, clues = completion.strip(), problem.question
    if len(digits) != _CELLS or set(digits) - set("1234"):
        return 0.0
    kept = all(clue in (".", digit) for clue, digit in zip(clues, digits, strict=True))
    return float(kept and all(len({digits[cell] for cell in unit}) == _BOARD.size for unit in _BOARD.units))


def _draft(rng: random.Random, level: int) -> Draft:
    (full,) = solutions(_BOARD, filled(_BOARD, [0] * _CELLS), 1, rng)
    clues = _emptied(rng, full, rng.randint(*_EMPTY[level]))
    question, answer = (_written(cells) for cells in (clues, full))
    return Draft(question, answer, answer, answer, Frozen(empty=clues.count(0)))


def _emptied(rng: random.Random, full: list[int], count: int) -> list[int]:
    """Returns the board without `count` of its digits. The choice is drawn again until the board has one solution."""
    while True:
        clues = list(full)
        for cell in rng.sample(range(_CELLS), count):
            clues[cell] = 0
        if len(solutions(_BOARD, filled(_BOARD, clues), 2)) == 1:
            return clues


def _written(bits: list[int]) -> str:
    return "".join(str(bit.bit_length()) if bit else "." for bit in bits)
