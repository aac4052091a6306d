"""A device: what taps do, the three forms of a screen, copies, and the seconds of a tap."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pytest

from gradus.tasks.games.screens_environment import APPS, FIELDS, PLACES, WIDGETS, Device, Screens, colour, shortest, tapped
from gradus.types import Frozen, Key, Problem, UserError

META = {"apps": ("call", "mail"), "fields": ("day", "to"), "app": "mail", "values": (2, 1)}
PROBLEM = Problem("p", "screens", meta=Frozen(META))


def device(**settings) -> Device:
    return Screens(**settings).start(PROBLEM, Key(1), None)


def taps(episode: Device, *actions):
    return [episode.play(a) for a in actions]


def test_the_way_to_the_goal():
    episode = device()
    assert episode.first.observation == "home\n1 call\n2 mail"
    turns = taps(episode, "2", "1", "1", "2", "3")
    assert [t.observation for t in turns[:4]] == [
        "mail\n1 day=mon\n2 to=ann\n3 ok\n4 back",
        "mail\n1 day=tue\n2 to=ann\n3 ok\n4 back",
        "mail\n1 day=wed\n2 to=ann\n3 ok\n4 back",
        "mail\n1 day=wed\n2 to=bob\n3 ok\n4 back",
    ]
    assert (turns[-1].reward, turns[-1].terminated) == (1.0, True)
    assert shortest(PROBLEM) == ["2", "1", "1", "2", "3"]
    assert [t.state for t in turns][:2] == ["mail 0 0", "mail 1 0"]


def test_a_wrong_form_ends_without_reward():
    assert [(t.reward, t.terminated) for t in taps(device(), "2", "3")] == [(0.0, False), (0.0, True)]
    other = taps(device(), "1", "1", "1", "2", "3")[-1]  # the right values in the wrong app
    assert (other.reward, other.terminated) == (0.0, True)


def test_values_go_round_and_back_keeps_them():
    episode = device()
    taps(episode, "2", "1", "1", "1")
    assert episode.values == {"day": 0, "to": 0}
    taps(episode, "1", "4")
    assert episode.open is None
    assert taps(episode, "2")[0].observation.startswith("mail\n1 day=tue")


def test_a_tap_beside_the_widgets_is_not_legal_and_costs_a_turn():
    episode = device(limit=3)
    turns = taps(episode, "5", "send", "7")
    assert [t.valid for t in turns] == [False] * 3
    assert [t.truncated for t in turns] == [False, False, True]
    assert [tapped(a) for a in ("2", "tap 3.", " 1 2", 4, "0", "6", np.int64(0))] == [1, 2, 1, 4, None, None, 0]


def test_the_array_shows_places_app_and_goal():
    episode = device(show="array")
    taps(episode, 1, 0)
    row = episode.observation()["screen"]
    assert (row.shape, row.dtype) == ((77,), np.float32)
    places = row[:60].reshape(PLACES, len(WIDGETS) + 3)
    assert [np.flatnonzero(p).tolist() for p in places] == [
        [WIDGETS.index("day"), 9 + 1],
        [WIDGETS.index("to"), 9],
        [WIDGETS.index("ok")],
        [WIDGETS.index("back")],
        [],
    ]
    assert np.flatnonzero(row[60:64]).tolist() == np.flatnonzero(row[64:68]).tolist() == [APPS.index("mail")]
    goal = row[68:].reshape(len(FIELDS), 3)
    assert {tuple(FIELDS)[i]: int(v) for i, v in zip(*np.nonzero(goal), strict=True)} == {"day": 2, "to": 1}


def test_pictures_of_different_screens_differ():
    seen = set()
    episode = device(show="image")
    for action in ("2", "1", "2", "4", "1"):
        seen.add(episode.picture().tobytes())
        episode.play(action)
    seen.add(episode.picture().tobytes())
    assert len(seen) == 5  # the home screen was seen twice
    assert len({colour(i) for i in range(len(WIDGETS) + 3)}) == len(WIDGETS) + 3
    (message,) = episode.observation()
    assert message["content"][0]["media"].array.shape == (48, 48, 3)
    assert Screens(show="image").shows == {"text", "image"}
    with pytest.raises(UserError, match=r'"imge".*image'):
        Screens(show="imge")


def test_a_copy_goes_its_own_way():
    episode = device()
    taps(episode, "2")
    copy = episode.fork(Key(9))
    taps(copy, "1")
    assert (episode.values["day"], copy.values["day"], copy.taps) == (0, 1, 2)


def test_the_key_determines_the_seconds_of_a_tap():
    async def seconds(episode):
        began = time.perf_counter()
        await episode.step("5")
        return time.perf_counter() - began

    slow, again = (device(delay=0.02) for _ in range(2))
    first, second = asyncio.run(seconds(slow)), asyncio.run(seconds(again))
    assert min(first, second) > 0  # the length is not asserted: the machine may be busy
    assert slow.state == again.state
    with pytest.raises(UserError, match="delay"):
        Screens(delay=-1.0)
    broken = Problem("p", "screens", meta=Frozen({**META, "app": "ride"}))
    with pytest.raises(UserError, match="the goal's app ride is not among the apps call, mail"):
        shortest(broken)
