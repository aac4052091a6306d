"""Frozen lake by hand."""

from __future__ import annotations

import pytest

from gradus.tasks.games.lake_environment import ASIDE, MOVES, FrozenLake, Walk, find, moved, parse, shortest, shown, slipped
from gradus.types import Key, UserError

GRID = ("P.H", "..H", "H.G")


def walk(**settings: float) -> Walk:
    return Walk(GRID, FrozenLake(**settings), Key(0))  # type: ignore[arg-type]


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
    with pytest.raises(UserError, match="slip is 2"):
        FrozenLake(slip=2)
    with pytest.raises(UserError, match="limit is 0"):
        FrozenLake(limit=0)


def test_shown_moves_the_player_only() -> None:
    assert shown(("P.", "HG"), (0, 1)) == ".P\nHG"
