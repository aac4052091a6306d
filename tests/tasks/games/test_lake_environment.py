"""Frozen lake by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.tasks.games.lake_environment import (
    ASIDE,
    COLOURS,
    MOVES,
    FrozenLake,
    Walk,
    find,
    moved,
    parse,
    picture,
    planes,
    shortest,
    shown,
    slipped,
)
from gradus.types import Key, UserError
from gradus.types.media import shown as media_of
from gradus.types.spaces import Choice

GRID = ("P.H", "..H", "H.G")


def walk(**settings: Any) -> Walk:
    return Walk(GRID, FrozenLake(**settings), Key(0))


def test_a_walk_to_the_goal() -> None:
    episode = walk()
    assert episode.first.observation == "P.H\n..H\nH.G"
    down = episode.play("down")
    assert (down.observation, down.reward, down.state) == ("..H\nP.H\nH.G", 0.0, "(1, 0)")
    assert episode.play("right").observation == "..H\n.PH\nH.G"
    assert episode.play("down").observation == "..H\n..H\nHPG"
    goal = episode.play("right")
    assert (goal.observation, goal.reward, goal.terminated, goal.truncated) == ("goal", 1.0, True, False)


def test_a_hole_ends_without_reward() -> None:
    episode = walk()
    episode.play("right")
    hole = episode.play("right")
    assert (hole.observation, hole.reward, hole.terminated) == ("hole", 0.0, True)


def test_the_edge_stops_a_move_and_the_state_is_the_same() -> None:
    turn = walk().play("up")
    assert (turn.observation, turn.valid, turn.state) == ("P.H\n..H\nH.G", True, "(0, 0)")
    assert [moved(GRID, (2, 2), m) for m in MOVES] == [(1, 2), (2, 2), (2, 1), (2, 2)]  # up, down, left, right from the corner


def test_an_invalid_action_uses_up_a_move() -> None:
    episode = walk(limit=2)
    turn = episode.play("dance")
    assert (turn.observation, turn.valid, turn.truncated) == ("not a move\nP.H\n..H\nH.G", False, False)
    assert episode.play("dance").truncated
    assert walk(limit=1).play("down").truncated


@pytest.mark.parametrize(
    ("action", "move"),
    [
        ("up", "up"),
        (" Down.\n", "down"),
        ("L", "left"),
        ("I am not sure: right", "right"),
        ("left then up", "up"),  # the last word decides
        ("right!<|end|>", None),
        ("upwards", None),
        ("øl", None),
        ("", None),
        ("go", None),
        ("x" * 10_000 + " r", "right"),
    ],
)
def test_parse(action: str, move: str | None) -> None:
    assert parse(action) == move


def test_slips_go_to_the_sides_with_their_chance() -> None:
    moves = [slipped("up", 0.4, Key(i)) for i in range(2000)]
    # expected 1200, 400, 400; standard deviations 21.9, 17.9, 17.9: bounds of four of them
    assert abs(moves.count("up") - 1200) < 88
    assert abs(moves.count("left") - 400) < 72
    assert abs(moves.count("right") - 400) < 72
    assert {slipped("left", 1.0, Key(i)) for i in range(50)} == set(ASIDE["left"])
    assert {slipped("left", 0.0, Key(i)) for i in range(50)} == {"left"}


def test_a_slip_draws_anew_every_move() -> None:
    ends = set()
    for i in range(40):
        episode = Walk(("P..", "...", "..G"), FrozenLake(slip=1.0), Key(i))
        ends.add((episode.play("right").state, episode.play("right").state))
    assert len(ends) > 2  # were both moves one draw, there would be two: twice down, twice (stopped) up


def test_shortest_way() -> None:
    assert shortest(GRID) == ["down", "right", "down", "right"]  # as long as right, down, down, right; down comes first
    assert shortest(("PH", "HG")) is None
    assert shortest(("PG",)) == ["right"]


def test_bad_maps_and_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="no P"):
        find(("..", ".G"), "P")
    with pytest.raises(UserError, match="`slip` is 2"):
        FrozenLake(slip=2)
    with pytest.raises(UserError, match="`limit` is 0"):
        FrozenLake(limit=0)


def test_shown_moves_the_player_only() -> None:
    assert shown(("P.", "HG"), (0, 1)) == ".P\nHG"


def test_one_walk_is_shown_in_three_ways() -> None:
    """The same moves, by name or by index, give the same states and rewards; only the observations differ."""
    ways = ["down", "right", "down", "right"], [1, 3, 1, 3], [np.int64(1), 3, 1, 3]
    walks = [walk(show=show) for show in ("text", "image", "array")]
    told = [[episode.first, *(episode.play(action) for action in moves)] for episode, moves in zip(walks, ways, strict=True)]
    text, image, array = told
    for turns in told[1:]:
        assert [(t.state, t.reward, t.terminated, t.valid) for t in turns] == [(t.state, t.reward, t.terminated, t.valid) for t in text]
    assert [len(media_of(t.observation)) for t in image[:-1]] == [1] * 4  # type: ignore[arg-type]
    assert (text[-1].observation, image[-1].observation) == ("goal", "goal")
    assert [t.observation["grid"].shape for t in array] == [(3, 3, 3)] * 5  # type: ignore[call-overload, index]  # the last one, too


def test_planes_by_hand() -> None:
    found = planes(GRID, (1, 0))
    assert found.dtype == np.float32
    assert found[..., 0].tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 0]]  # holes
    assert found[..., 1].tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]  # the goal
    assert found[..., 2].tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]  # the player
    assert planes(GRID, (2, 2))[2, 2].tolist() == [0, 1, 1]  # the player on the goal
    assert planes(GRID, (0, 2))[0, 2].tolist() == [1, 0, 1]


def test_a_picture_by_hand() -> None:
    found = picture(GRID, (1, 0))
    assert (found.shape, found.dtype) == ((48, 48, 3), np.uint8)
    assert [tuple(found[8 + 16 * row, 8 + 16 * column]) for row, column in ((0, 0), (1, 0), (0, 2), (2, 2))] == [COLOURS[m] for m in ".PHG"]
    assert (picture(("P....", ".....", ".....", ".....", "....G"), (0, 0))[45:] == 0).all()  # 9 pixels a cell, black beyond


def test_the_spaces_of_the_lake() -> None:
    assert FrozenLake().acts == Choice(("up", "down", "left", "right"))
    assert [sorted(FrozenLake(show=show).shows) for show in ("text", "image", "array")] == [["text"], ["image", "text"], ["array"]]  # type: ignore[arg-type]
    assert walk(show="array").play(7).valid is False
    assert walk(show="image").play("jump").observation[0]["content"][0]["text"] == "not a move\n"  # type: ignore[index]
    assert "demonstration" in frozen_lake().provides
    assert "demonstration" not in frozen_lake(show="array").provides  # they are text
    with pytest.raises(UserError, match=r'unknown way to show the lake "arrays" \(did you mean array\?\)'):
        FrozenLake(show="arrays")  # type: ignore[arg-type]


def test_a_copy_goes_on_alone_and_equal_keys_meet_equal_chance() -> None:
    grid, settings = ("P...", "....", "....", "...G"), FrozenLake(slip=0.7)
    walk = Walk(grid, settings, Key(0))
    walk.play("down")
    cell = walk.cell
    ways = []
    for key in (Key(1), Key(1), Key(2)):
        copy = walk.fork(key)
        ways.append([copy.play(move).state for move in ("right", "down", "right", "up", "down")])
        assert (walk.cell, walk.moves, walk.key, copy.moves) == (cell, 1, Key(0), 6)
    assert ways[0] == ways[1] != ways[2]
