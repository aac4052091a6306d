"""Noughts and crosses for controllers: self-play, or games against a scripted player that is perfect or random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np

from gradus.tasks.control.starts import Starts
from gradus.types import Frozen, Key, Problem, Sampling, UserError
from gradus.types.parts import Task, Turn, World
from gradus.types.ranges import check_ranges
from gradus.types.spaces import Choice, Space

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
SEATS = ("cross", "nought")
CELLS = Choice(tuple("123456789"))
OPPONENTS = ("self", "perfect", "random")
WIN, DRAW, LOSS = 1.0, 0.5, 0.0

Board = str
"""Nine characters: "x", "o", or "." for an empty cell. Cross moves first, so the board also tells who moves."""


def noughts_and_crosses(opponent: Literal["self", "perfect", "random"] = "self", opening: int = 2) -> Task:
    """A game of noughts and crosses. A win earns 1, a draw 0.5 and a loss 0; a move to a full cell loses.

    `opponent`: "self" has the seats cross and nought, for the rollout `Seats`. "perfect" and "random" are scripted players; the episode's key determines
    which side the policy has. `opening`: the largest number of random moves before the first turn, 0 to 4. The key draws their number. From the empty
    board, a perfect player never loses, so against this player 0.5 is the best reward.
    """
    source = Starts("noughts_and_crosses")
    return Task(
        "noughts_and_crosses",
        source,
        replace(source, held_out=True),
        environment=NoughtsAndCrosses(opponent, opening),
        about="noughts and crosses against oneself or a scripted player; for controllers, a turn is a cell",
        sampling=Sampling(max_tokens=1),
    )


def winner(board: Board) -> str | None:
    """Returns the mark with three in a line, or None.

    >>> winner("xxxoo...."), winner("xoxoxoo..")
    ('x', None)
    """
    return next((board[a] for a, b, c in LINES if board[a] != "." and board[a] == board[b] == board[c]), None)


def mover(board: Board) -> str:
    """Returns the mark that moves next."""
    return "x" if board.count(".") % 2 else "o"


def over(board: Board) -> bool:
    """Returns whether the game has ended."""
    return winner(board) is not None or "." not in board


def moved(board: Board, cell: int) -> Board:
    """Returns the board after the mover has marked the cell."""
    return board[:cell] + mover(board) + board[cell + 1 :]


def free(board: Board) -> list[int]:
    """Returns the empty cells."""
    return [cell for cell, mark in enumerate(board) if mark == "."]


@cache
def value(board: Board) -> int:
    """Returns the result of the mover if both sides play perfectly: 1 a win, 0 a draw, -1 a loss."""
    if winner(board) is not None:
        return -1  # the other side has just made a line
    return max((-value(moved(board, cell)) for cell in free(board)), default=0)


def best_moves(board: Board) -> list[int]:
    """Returns the moves with the best value."""
    values = {cell: -value(moved(board, cell)) for cell in free(board)}
    return [cell for cell, found in values.items() if found == max(values.values())]


def seen(board: Board) -> Mapping[str, np.ndarray]:
    """Returns the observation of the mover: `board`, float32 [18], 1 where the mover has a mark, then 1 where the other side has a mark."""
    own = mover(board)
    return {"board": np.array([m == own for m in board] + [m not in (own, ".") for m in board], np.float32)}


@dataclass(frozen=True)
class NoughtsAndCrosses:
    """The environment of the game. An action is a cell, 1 to 9, in reading order."""

    opponent: Literal["self", "perfect", "random"] = "self"
    opening: int = 2  # largest number of random moves before the first turn
    limit: int = 9  # largest number of turns; then the game is truncated. An action that names no cell costs a turn and changes nothing
    shows: ClassVar[frozenset[str]] = frozenset({"array"})
    acts: ClassVar[Space] = CELLS

    def __post_init__(self) -> None:
        if self.opponent not in OPPONENTS:
            raise UserError(f"noughts_and_crosses: `opponent` is {self.opponent!r}; choose one of {', '.join(OPPONENTS)}")
        check_ranges(self, opening="[0, 4]", limit="[1, inf)")

    @property
    def seats(self) -> tuple[str, ...]:
        """The seats that act, in order; ("policy",) against a scripted opponent."""
        return SEATS if self.opponent == "self" else ("policy",)

    def start(self, problem: Problem, key: Key, world: World) -> Game:
        return Game(self.opponent, key, opened(self.opening, key.fold("opening")), self.limit)


def opened(most: int, key: Key) -> Board:
    """Returns the board after 0 to `most` random moves. At most four moves make no line."""
    board = "." * 9
    for i in range(key.choice(range(most + 1))):
        board = moved(board, key.fold(i).choice(free(board)))
    return board


class Game:
    """One game. Against a scripted opponent, the opponent's move follows each move of the policy."""

    def __init__(self, opponent: str, key: Key, board: Board = "." * 9, limit: int = 9) -> None:
        self.opponent, self.key, self.board, self.left = opponent, key, board, limit
        self.own = "xo"[int(key.fold("side").uniform(1)[0] < 0.5)]  # the policy's mark against a scripted opponent
        if opponent != "self" and not over(board) and mover(board) != self.own:
            self._reply()
        self.first = self._turn()

    def fork(self, key: Key) -> Game:
        """Returns a copy. The opponent's further moves depend on `key`."""
        made = Game.__new__(Game)
        made.opponent, made.key, made.board, made.left = self.opponent, key, self.board, self.left
        made.own, made.first = self.own, self.first
        return made

    async def step(self, action: Any) -> Turn:
        return self.play(action)

    def play(self, action: Any) -> Turn:
        """Returns the turn after a move. A move to a full cell ends the game with a loss."""
        cell, mark = CELLS.index(action), mover(self.board)
        self.left -= 1
        if cell is None:
            return self._turn(valid=False)
        if self.board[cell] != ".":
            return self._ended({mark: LOSS, "xo"[mark == "x"]: WIN})
        self.board = moved(self.board, cell)
        if self.opponent != "self" and not over(self.board):
            self._reply()
        if not over(self.board):
            return self._turn()
        won = winner(self.board)
        return self._ended({side: DRAW if won is None else WIN if side == won else LOSS for side in "xo"})

    def _reply(self) -> None:
        moves = free(self.board) if self.opponent == "random" else best_moves(self.board)
        self.board = moved(self.board, self.key.fold("reply", len(free(self.board))).choice(moves))

    def _turn(self, valid: bool = True) -> Turn:
        return Turn(seen(self.board), truncated=self.left <= 0, player=self._seat(), state=self.board, valid=valid)

    def _ended(self, results: Mapping[str, float]) -> Turn:
        """Returns the last turn. In self-play every seat gets its own result; against a scripted opponent the reward is the policy's."""
        alone = self.opponent != "self"
        rewards = Frozen() if alone else Frozen({seat: results[mark] for seat, mark in zip(SEATS, "xo", strict=True)})
        reward = results[self.own] if alone else 0.0
        return Turn(seen(self.board), reward, terminated=True, player=self._seat(), rewards=rewards, state=self.board)

    def _seat(self) -> str:
        return SEATS["xo".index(mover(self.board))] if self.opponent == "self" else "policy"
