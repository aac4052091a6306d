"""Sudoku of 4 x 4, 6 x 6 and 9 x 9 cells, each with exactly one solution."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import ending, hints
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_LEVELS = {  # rows and columns of a box, fewest and most empty cells, whether it is solvable without trying out
    1: (2, 2, 4, 6, True),
    2: (2, 2, 7, 9, True),
    3: (2, 3, 17, 22, True),
    4: (3, 3, 36, 42, True),
    5: (3, 3, 44, 50, True),
    6: (3, 3, 54, 58, False),
}
_LIMITS = {1: 60, 2: 80, 3: 150, 4: 270, 5: 310, 6: 340}  # level -> characters of the longest worked solution, and some more
_TAIL = 512
_CHANCE = 0.035  # success at level 2 of filling every row at random with its missing digits; measured on 4,096 boards


@dataclass(frozen=True)
class Board:
    """Cells are numbered row by row. `units`: rows, columns and boxes; `peers`: for each cell, the other cells that share a unit with this cell."""

    size: int
    units: tuple[tuple[int, ...], ...]
    peers: tuple[tuple[int, ...], ...]


def sudoku(level: int = 2) -> Task:
    """Boards of 4 x 4 cells at `level` 1 and 2, of 6 x 6 (boxes of two rows and three columns) at `level` 3, and of 9 x 9 from `level` 4 on. Level 6 may need
    trial and error."""
    return generated_task(
        "sudoku",
        _sudoku,
        verify,
        level=level,
        levels=(min(_LEVELS), max(_LEVELS)),
        max_tokens=_LIMITS.get(level, 0),
        chance=_CHANCE,
        about='sudoku: rows of digits, "." for a missing one -> "124 311 ... =1243 3421 ..." (row, column, digit found; then all rows)',
        provides=("hints",),
    )


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" is a full board that keeps clues and rules; else 0.0. White space, commas and | are ignored."""
    said = ending(completion, _TAIL)
    clues = problem.question.replace("\n", "")
    rows, columns = problem.meta["box"]
    given = board(rows, columns)
    digits = re.sub(r"[\s,|]", "", said) if said is not None and said.isascii() else ""
    if re.fullmatch(f"[1-{given.size}]{{{len(clues)}}}", digits) is None:
        return 0.0
    kept = all(clue in (".", digit) for clue, digit in zip(clues, digits, strict=True))
    return float(kept and all(len({digits[cell] for cell in unit}) == given.size for unit in given.units))


@cache
def board(rows: int, columns: int) -> Board:
    """Returns the board with boxes of `rows` rows and `columns` columns."""
    n = rows * columns
    units = [tuple(n * r + c for c in range(n)) for r in range(n)]
    units += [tuple(n * r + c for r in range(n)) for c in range(n)]
    boxes = product(range(0, n, rows), range(0, n, columns))
    units += [tuple(n * (r + i) + c + j for i in range(rows) for j in range(columns)) for r, c in boxes]
    peers = tuple(tuple(sorted({other for unit in units if cell in unit for other in unit} - {cell})) for cell in range(n * n))
    return Board(n, tuple(units), peers)


class Contradiction(Exception):
    """The error if a cell has no possible digit, or if a digit has no possible cell in a unit."""


@dataclass(frozen=True)
class Filling:
    """The possible digits of every cell, one bit per digit, and the solved cells in the order in which they were found."""

    possible: list[int]
    found: list[int]

    def copy(self) -> Filling:
        return Filling(self.possible.copy(), self.found.copy())


def filled(given: Board, clues: Sequence[int]) -> Filling:
    """Fills the board by two rules: a cell has only one possible digit, or a digit has only one possible cell in a unit. Raises Contradiction if these rules
    show that the clues allow no full board.

    `clues`: for every cell the bit of its digit, or 0 if the cell is empty.
    """
    filling = Filling([(1 << given.size) - 1] * len(clues), [])
    for cell, bit in enumerate(clues):
        if bit:
            _put(given, filling, cell, bit)
    _follow(given, filling)
    return filling


def _put(given: Board, filling: Filling, cell: int, bit: int) -> None:
    """Puts the digit into the cell and removes it from the cell's peers. Peers with only one possible digit are then filled, too."""
    possible = filling.possible
    if not possible[cell] & bit:
        raise Contradiction
    if possible[cell] == bit and cell in filling.found:
        return
    possible[cell] = bit
    waiting = [cell]
    while waiting:
        at = waiting.pop(0)
        bit = possible[at]
        filling.found.append(at)
        for peer in given.peers[at]:
            if possible[peer] & bit:
                left = possible[peer] & ~bit
                if not left:
                    raise Contradiction
                possible[peer] = left
                if not left & (left - 1):
                    waiting.append(peer)


def _follow(given: Board, filling: Filling) -> None:
    """Places digits that have only one possible cell in a unit, until there is no such digit. Raises Contradiction if a digit has no possible cell."""
    possible, every = filling.possible, (1 << given.size) - 1
    moved = True
    while moved:
        moved = False
        for unit in given.units:
            once = twice = 0
            for cell in unit:
                twice |= once & possible[cell]
                once |= possible[cell]
            if once != every:
                raise Contradiction
            once &= ~twice
            for cell in unit:
                bit = possible[cell] & once
                if bit and bit != possible[cell]:
                    _put(given, filling, cell, bit)
                    moved = True


def solutions(given: Board, filling: Filling, most: int, rng: random.Random | None = None) -> list[list[int]]:
    """Returns up to `most` full boards that complete a filling. Each cell of a board has the bit of its digit. Digits are tried upwards, or in random order
    with `rng`."""
    cell = _narrowest(filling.possible)
    if cell is None:
        return [filling.possible]
    bits = [1 << i for i in range(given.size) if filling.possible[cell] >> i & 1]
    found: list[list[int]] = []
    for bit in rng.sample(bits, len(bits)) if rng else bits:
        tried = filling.copy()
        try:
            _put(given, tried, cell, bit)
            _follow(given, tried)
        except Contradiction:
            continue
        found += solutions(given, tried, most - len(found), rng)
        if len(found) >= most:
            break
    return found


def _narrowest(possible: Sequence[int]) -> int | None:
    """Returns the open cell with the fewest possible digits; None if no cell is open."""
    open_ = [(bits.bit_count(), cell) for cell, bits in enumerate(possible) if bits & (bits - 1)]
    return min(open_)[1] if open_ else None


def _emptied(rng: random.Random, given: Board, board_: Sequence[int], count: int, easy: bool) -> list[int]:
    """Removes up to `count` digits from the board. The board still has one solution. With `easy`, the solution needs no trial and error."""
    clues = list(board_)
    order = rng.sample(range(len(clues)), len(clues))
    size, at, gone = max(1, count // 2), 0, 0
    while gone < count and at < len(order):
        some = order[at : at + min(size, count - gone)]
        for cell in some:
            clues[cell] = 0
        if _unique(given, clues, easy):
            gone, at = gone + len(some), at + len(some)
            continue
        for cell in some:
            clues[cell] = board_[cell]
        at, size = (at + 1, 1) if len(some) == 1 else (at, max(1, len(some) // 2))
    return clues


def _unique(given: Board, clues: Sequence[int], easy: bool) -> bool:
    filling = filled(given, clues)
    return _narrowest(filling.possible) is None or (not easy and len(solutions(given, filling, 2)) == 1)


def _sudoku(rng: random.Random, level: int) -> Draft:
    rows, columns, fewest, most, easy = _LEVELS[level]
    given = board(rows, columns)
    (full,) = solutions(given, filled(given, [0] * given.size**2), 1, rng)
    clues = _emptied(rng, given, full, rng.randint(fewest, most), easy)
    question, answer = (_written(bits, given.size, mark) for bits, mark in ((clues, "\n"), (full, " ")))
    found = _worked(given, clues, full)
    solution = f"{' '.join(found)} ={answer}"
    knowledge = ("every row, every column", f" and every box of {rows} rows and {columns} columns", " has each digit once")
    told = hints(knowledge, (f"begin with row {found[0].lstrip('?')[0]}", f", column {found[0].lstrip('?')[1]}"), solution)
    meta = Frozen(category=f"{given.size}x{given.size}", box=(rows, columns), empty=clues.count(0), hints=told)
    return Draft(question, answer, solution, content(question, rows, columns), meta)


def _written(bits: Sequence[int], size: int, mark: str) -> str:
    digits = "".join(str(bit.bit_length()) if bit else "." for bit in bits)
    return mark.join(digits[i : i + size] for i in range(0, len(digits), size))


def _worked(given: Board, clues: Sequence[int], full: Sequence[int]) -> list[str]:
    """Returns row, column and digit of the empty cells in the order of solving. A "?" marks a digit that is a guess."""
    filling, tried = filled(given, clues), set()
    while (cell := _narrowest(filling.possible)) is not None:
        tried.add(cell)
        _put(given, filling, cell, full[cell])
        _follow(given, filling)
    empty = [cell for cell in filling.found if not clues[cell]]
    return [f"{'?' if c in tried else ''}{c // given.size + 1}{c % given.size + 1}{full[c].bit_length()}" for c in empty]


def content(question: str, rows: int, columns: int) -> str:
    """Returns the clues with digits renumbered in order of appearance. For a 4 x 4 board, each symmetric form gives a text; the first text in sort order is
    returned.

    Larger boards need no symmetric forms: there are so many boards that two forms of one board are almost never drawn.
    """
    clues = question.replace("\n", "")
    forms = _forms() if len(clues) == 16 else (tuple(range(len(clues))),)
    made = []
    for form in forms:
        names = {".": "."}
        made.append("".join(names.setdefault(clues[cell], str(len(names))) for cell in form))
    return min(made)


@cache
def _forms() -> tuple[tuple[int, ...], ...]:
    """Returns the 128 symmetries of a 4 x 4 board. The symmetries exchange rows within a band, bands, columns within a stack, stacks, or rows with
    columns."""
    lines = [
        tuple(2 * band + i for band, inner in zip(bands, inners, strict=True) for i in inner)
        for bands in permutations(range(2))
        for inners in product(permutations(range(2)), repeat=2)
    ]
    plain = [tuple(4 * r + c for r in rows for c in columns) for rows in lines for columns in lines]
    return tuple(plain + [tuple(4 * (cell % 4) + cell // 4 for cell in form) for form in plain])
