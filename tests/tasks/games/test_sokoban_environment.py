"""Sokoban by hand: steps, pushes, dead ends, and the two seats of a team."""

from __future__ import annotations

import pytest

from gradus.tasks.games.sokoban_environment import Push, Sokoban, distances, move_of, pushed, way
from gradus.types import Key

GRID = ("P..", ".B.", "..G")  # push right, go round, push down


def play(*moves: str, **settings: object) -> list:
    episode = Push(GRID, Sokoban(**settings))  # type: ignore[arg-type]
    return [episode.first, *(episode.play(move) for move in moves)]


def test_a_solution_by_hand() -> None:
    assert way(GRID) == ["down", "right", "up", "right", "down"]
    assert distances(GRID)[(0, 0), (1, 1)] == 5
    turns = play(*way(GRID))  # type: ignore[misc]
    assert [t.observation for t in turns[:3]] == ["P..\n.B.\n..G", "...\nPB.\n..G", "...\n.PB\n..G"]
    assert (turns[-1].reward, turns[-1].terminated) == (1.0, True)
    assert sum(t.reward for t in turns[:-1]) == 0


@pytest.mark.parametrize(
    ("state", "move", "after"),
    [
        (((0, 0), (1, 1)), "up", None),  # the edge
        (((0, 1), (1, 1)), "down", ((1, 1), (2, 1))),  # a push
        (((1, 1), (2, 1)), "down", None),  # a push against the edge
        (((0, 0), (1, 1)), "right", ((0, 1), (1, 1))),
    ],
)
def test_moves(state, move, after) -> None:
    assert pushed(GRID, state, move) == after


def test_walls_stop_player_and_box() -> None:
    grid = ("PB#", "#.G")
    assert pushed(grid, ((0, 0), (0, 1)), "right") is None
    assert pushed(grid, ((0, 0), (0, 1)), "down") is None


def test_a_dead_end_ends_the_episode_without_reward() -> None:
    assert not play("right", "down")[-1].terminated  # the box stands at the lower edge, left of the goal: it can still be pushed right
    stuck = play("down", "down", "right", "up")[-1]  # the box stands at the upper edge and never leaves it
    assert (stuck.observation, stuck.terminated, stuck.reward) == ("stuck", True, 0.0)


def test_an_illegal_move_costs_a_move_and_is_marked() -> None:
    turns = play("up", "dance", limit=2)
    assert [t.valid for t in turns] == [True, False, False]
    assert (turns[1].truncated, turns[2].truncated) == (False, True)


def test_a_team_proposes_and_decides() -> None:
    first, asked, after = play("down", "right", team=True)
    assert (first.player, first.observation) == ("planner", "P..\n.B.\n..G")
    assert (asked.player, asked.observation) == ("checker", "P..\n.B.\n..G\nplanner: down")
    assert dict(asked.rewards) == {"planner": pytest.approx(1 / 5 + 0.1)}  # one of five moves gained, and legal
    assert (after.player, after.observation) == ("planner", ".P.\n.B.\n..G")
    # the move of the checker counts: over (0, 1) the box is pushed down to (2, 1), then right needs 4 more: 5 moves left, nothing gained
    gained = (5 - distances(GRID)[(0, 1), (1, 1)]) / 5
    assert dict(after.rewards) == {"checker": pytest.approx(gained + 0.1)}


def test_a_teams_illegal_move_and_dead_end_have_their_price() -> None:
    asked = play("up", team=True)[1]
    assert dict(asked.rewards) == {"planner": -0.1}
    turn = play("down", "down", "down", "down", "right", "right", "up", team=True)[-1]
    assert dict(turn.rewards) == {"planner": pytest.approx(-1 + 0.1)}


def test_a_map_without_a_solution_is_refused() -> None:
    with pytest.raises(ValueError, match="has no solution"):
        Push(("P..", "B..", "..G"), Sokoban())


def test_a_copy_goes_on_alone() -> None:
    episode = Push(GRID, Sokoban())
    copy = episode.fork(Key(0))
    copy.play("down")
    assert (episode.moves, episode.state) == (0, ((0, 0), (1, 1)))
    assert copy.state == ((1, 0), (1, 1))


def test_an_action_may_be_an_index() -> None:
    acts = Sokoban().acts
    assert [move_of(i, acts) for i in (0, 3, 4)] == ["up", "right", None]
    assert move_of("go LEFT", acts) == "left"
