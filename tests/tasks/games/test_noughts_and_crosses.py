"""Noughts and crosses: the rules, the perfect player, the rewards of both seats, and a game against oneself in the rollout `Seats`."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from gradus.tasks.games.noughts_and_crosses import Game, NoughtsAndCrosses, best_moves, free, moved, mover, over, seen, value, winner
from gradus.types import Key, UserError


def played(game: Game, *cells: int) -> Any:
    """The last turn after these cells, 1 to 9."""
    turn = game.first
    for cell in cells:
        turn = asyncio.run(game.step(cell - 1))
    return turn


def outcomes(board: str, perfect: str) -> set[str | None]:
    """The winners of all games in which one side plays any best move, and the other side any move."""
    if over(board):
        return {winner(board)}
    moves = best_moves(board) if mover(board) == perfect else free(board)
    return set().union(*(outcomes(moved(board, cell), perfect) for cell in moves))


@pytest.mark.parametrize("mark", ["x", "o"])
def test_the_perfect_player_never_loses(mark: str) -> None:
    assert outcomes("." * 9, mark) == {None, mark}


def test_values_of_positions_by_hand() -> None:
    assert value("." * 9) == 0
    assert value("xx.oo....") == 1  # cross moves and completes its line
    assert best_moves("xx.oo....") == [2]
    assert value("x.x.o.x.o") == -1  # nought moves, and can block only one of two lines
    assert best_moves("x...o...x") == [1, 3, 5, 7]  # a corner would lose


def test_the_observation_is_from_the_side_of_the_mover() -> None:
    assert seen("x........")["board"].tolist() == [0.0] * 9 + [1.0] + [0.0] * 8
    assert seen("xo.......")["board"].tolist() == [1.0] + [0.0] * 9 + [1.0] + [0.0] * 7
    assert seen("xo.......")["board"].dtype == np.float32


def test_each_seat_gets_its_own_result() -> None:
    game = Game("self", Key(0))
    assert game.first.player == "cross"
    assert played(game, 1).player == "nought"
    won = played(game, 4, 2, 5, 3)  # x: 1 2 3
    assert (won.terminated, dict(won.rewards), won.reward) == (True, {"cross": 1.0, "nought": 0.0}, 0.0)
    even = played(Game("self", Key(0)), 1, 2, 3, 5, 4, 6, 8, 7, 9)
    assert dict(even.rewards) == {"cross": 0.5, "nought": 0.5}


def test_a_move_to_a_full_cell_loses() -> None:
    turn = played(Game("self", Key(0)), 1, 1)
    assert (turn.terminated, dict(turn.rewards)) == (True, {"nought": 0.0, "cross": 1.0})


@pytest.mark.parametrize("opponent", ["perfect", "random"])
def test_a_scripted_opponent_replies(opponent: str) -> None:
    """The policy has either side; after its move the opponent has moved, too."""
    sides = set()
    for i in range(8):
        game = Game(opponent, Key(i))
        sides.add(game.own)
        assert game.board.count(".") == (9 if game.own == "x" else 8)
        turn = played(game, free(game.board)[0] + 1)
        assert turn.player == "policy"
        assert mover(game.board) == game.own
    assert sides == {"x", "o"}


def test_a_copy_goes_its_own_way() -> None:
    game = Game("self", Key(0))
    played(game, 5)
    copy = game.fork(Key(1))
    played(copy, 1)
    assert (game.board, copy.board) == ("....x....", "o...x....")


def test_an_unknown_opponent_is_refused() -> None:
    with pytest.raises(UserError, match="choose one of self, perfect, random"):
        NoughtsAndCrosses("me")  # type: ignore[arg-type]
