"""The corridor by hand: right doors, wrong doors, the end and the limit."""

from __future__ import annotations

from gradus.tasks.games.corridor_environment import KEYS, Corridor, Passage
from gradus.types import Key


def play(*doors: object, keys: str = "bkf", **settings: int) -> list:
    episode = Passage(tuple(keys), Corridor(**settings))
    return [episode.first, *(episode.play(door) for door in doors)]


def test_two_keys_fit_each_door() -> None:
    assert sorted(KEYS.values()) == sorted("neswnesw")
    assert [KEYS[key] for key in "bkf"] == ["n", "e", "s"]


def test_the_right_doors_lead_out() -> None:
    turns = play("n", " E ", 2)  # text without case and outer spaces, or an index
    assert [t.observation for t in turns] == ["b", "k", "f", "out"]
    assert [t.reward for t in turns] == [0, 0, 0, 1]
    assert [t.terminated for t in turns] == [False, False, False, True]
    assert [t.state for t in turns] == ["0 b", "1 k", "2 f", "out"]


def test_a_wrong_door_costs_a_turn() -> None:
    turns = play("n", "w", "what", "e")
    assert [t.state for t in turns] == ["0 b", "1 k", "1 k", "1 k", "2 f"]
    assert [t.valid for t in turns] == [True, True, True, False, True]


def test_a_wrong_door_leads_back() -> None:
    assert [t.state for t in play("n", "e", "w", "w", back=1)] == ["0 b", "1 k", "2 f", "1 k", "0 b"]


def test_the_limit() -> None:
    assert [t.truncated for t in play("n", "w", "w", limit=3)] == [False, False, False, True]


def test_a_fork_goes_its_own_way() -> None:
    episode = Passage(tuple("bkf"), Corridor())
    episode.play("n")
    copied = episode.fork(Key(0))
    copied.play("e")
    assert (episode.room, copied.room) == (1, 2)
