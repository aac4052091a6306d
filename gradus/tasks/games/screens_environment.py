"""Screens of a device with small apps. A tap on a widget opens an app, changes the value of a field, sends the form, or goes back.

The home screen has one button per app. The screen of an app has its fields, the button `ok` and the button `back`. A tap on a field shows its next value.
"""

from __future__ import annotations

import asyncio
import copy
import math
import re
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.types import Frozen, Key, Media, Problem, UserError, unknown
from gradus.types.parts import Turn, World
from gradus.types.ranges import check_ranges
from gradus.types.spaces import Action, Choice, Observation, Space

APPS = ("mail", "call", "note", "ride")
FIELDS = Frozen(to=("ann", "bob", "cal"), day=("mon", "tue", "wed"), how=("fast", "slow", "soon"))
"""Name of a field -> its values, in the order of the taps. The first value is shown at the start."""
BUTTONS = ("ok", "back")
PLACES = 5  # places for widgets on a screen
TAPS = Choice(tuple(str(i + 1) for i in range(PLACES)))
TAIL = 200  # characters of an action that are read, from its end
WIDGETS = (*APPS, *FIELDS, *BUTTONS)
OPTIONS = 3  # values of a field
WAYS = ("text", "image", "array")


@dataclass(frozen=True)
class Screens:
    """A device with the apps, fields and goal of `problem.meta`: `apps` and `fields` (in the order of the screen), `app` and `values` (the goal).

    `ok` ends the episode: the reward is 1 if the goal's app is open and all its fields show the goal's values, else 0. A tap on an empty position is not
    legal and costs a turn.
    """

    limit: int = 30  # largest number of taps; then the episode is truncated
    delay: float = 0.0  # mean seconds of a tap; the key draws the seconds of each tap from an exponential distribution
    show: Literal["text", "image", "array"] = "text"  # how a screen is shown; an array is for a controller
    acts: ClassVar[Space] = TAPS
    forks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ranges(self, limit="[1, inf)", delay="[0, inf)")
        if self.show not in WAYS:
            raise unknown("way to show the screen", self.show, WAYS, "In show of screens")

    @property
    def shows(self) -> frozenset[str]:
        """The kinds of data that an observation contains."""
        return frozenset({"array"} if self.show == "array" else {"text", self.show})

    def start(self, problem: Problem, key: Key, world: World) -> Device:
        return Device(problem, self, key)


class Device:
    """One episode. `open`: the name of the open app; None is the home screen. `values`: field -> index of the value that it shows."""

    def __init__(self, problem: Problem, settings: Screens, key: Key) -> None:
        self.meta, self.settings, self.key = problem.meta, settings, key
        self.open: str | None = None
        self.values = dict.fromkeys(self.meta["fields"], 0)
        self.taps = 0
        self.first = Turn(self.observation(), state=self.state)

    @property
    def widgets(self) -> tuple[str, ...]:
        """The names of the widgets on the screen, in order."""
        return tuple(self.meta["apps"]) if self.open is None else (*self.meta["fields"], *BUTTONS)

    @property
    def state(self) -> str:
        return " ".join([self.open or "home", *(str(v) for v in self.values.values())])

    def fork(self, key: Key) -> Device:
        """Returns a copy in the same state. `key` determines the seconds of its taps."""
        made = copy.copy(self)
        made.values, made.key = dict(self.values), key
        return made

    async def step(self, action: Action) -> Turn:
        if self.settings.delay:
            await asyncio.sleep(-self.settings.delay * math.log1p(-float(self.key.fold("seconds", self.taps).uniform())))
        return self.play(action)

    def play(self, action: Action) -> Turn:
        """Returns the turn after one tap."""
        self.taps += 1
        truncated = self.taps >= self.settings.limit
        place = tapped(action)
        if place is None or place >= len(self.widgets):
            return Turn(self.observation(), truncated=truncated, state=self.state, valid=False)
        widget = self.widgets[place]
        if widget == "ok":
            right = self.open == self.meta["app"] and self.values == dict(zip(self.meta["fields"], self.meta["values"], strict=True))
            return Turn(self.observation(), float(right), terminated=True, state=self.state)
        if self.open is None:
            self.open = widget
        elif widget == "back":
            self.open = None
        else:
            self.values[widget] = (self.values[widget] + 1) % OPTIONS
        return Turn(self.observation(), truncated=truncated, state=self.state)

    def observation(self) -> Observation:
        if self.settings.show == "array":
            return {"screen": self.array()}
        if self.settings.show == "text":
            return self.text()
        return ({"role": "user", "content": ({"type": "image", "media": Media("image", self.picture())},)},)

    def text(self) -> str:
        """The screen as text: its name, then one numbered widget per line."""
        lines = [f"{i} {w}{f'={FIELDS[w][self.values[w]]}' if w in FIELDS else ''}" for i, w in enumerate(self.widgets, start=1)]
        return "\n".join([self.open or "home", *lines])

    def array(self) -> np.ndarray:
        """The screen and the goal as float32 [77]: for each position the widget and its value (one-hot), the open app, the goal's app and values."""
        places = np.zeros((PLACES, len(WIDGETS) + OPTIONS), np.float32)
        for i, widget in enumerate(self.widgets):
            places[i, WIDGETS.index(widget)] = 1
            if widget in FIELDS:
                places[i, len(WIDGETS) + self.values[widget]] = 1
        apps, goal = np.zeros((2, len(APPS)), np.float32), np.zeros((len(FIELDS), OPTIONS), np.float32)
        apps[1, APPS.index(self.meta["app"])] = 1
        if self.open is not None:
            apps[0, APPS.index(self.open)] = 1
        for field, value in zip(self.meta["fields"], self.meta["values"], strict=True):
            goal[tuple(FIELDS).index(field), value] = 1
        return np.concatenate([places.ravel(), apps.ravel(), goal.ravel()])

    def picture(self) -> np.ndarray:
        """The screen as uint8 [48, 48, 3]. The top bar has the colour of the open app. Each widget is a square in its colour; a field has another square in the
        colour of its value."""
        out = np.full((48, 48, 3), 240, np.uint8)
        out[:6] = colour(WIDGETS.index(self.open)) if self.open is not None else 0
        for i, widget in enumerate(self.widgets):
            rows = slice(8 + 8 * i, 14 + 8 * i)
            out[rows, 2:18] = colour(WIDGETS.index(widget))
            if widget in FIELDS:
                out[rows, 24:40] = colour(len(WIDGETS) + self.values[widget])
        return out


def colour(number: int) -> tuple[int, int, int]:
    """Returns a colour; the numbers 0 to 11 have different colours.

    >>> len({colour(i) for i in range(12)})
    12
    """
    return (40 + 70 * (number % 3), 30 + 60 * (number // 3 % 4), 200 - 50 * (number % 4))


def tapped(action: Action) -> int | None:
    """Returns the position that an action taps, from 0: an index, or the last number of a text. None if there is no such position.

    >>> tapped("I tap 2"), tapped(1), tapped("9"), tapped("ok")
    (1, 1, None, None)
    """
    if not isinstance(action, str):
        return TAPS.index(action)
    found = re.findall(r"\d+", action[-TAIL:])
    return TAPS.index(found[-1]) if found else None


def shortest(problem: Problem) -> list[str]:
    """Returns the taps of a shortest way to the goal. Raises UserError if the goal's app is not on the home screen."""
    meta = problem.meta
    if meta["app"] not in meta["apps"]:
        raise UserError(f"problem {problem.id}: the goal's app {meta['app']} is not among the apps {', '.join(meta['apps'])}; add the app")
    taps = [meta["apps"].index(meta["app"])]
    for place, value in enumerate(meta["values"]):
        taps += [place] * value
    return [str(tap + 1) for tap in (*taps, len(meta["fields"]))]
