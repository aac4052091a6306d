"""Text forms of Gymnasium environments: their rules, their observations as text, and actions read from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gradus.types import UserError

TAIL = 200  # characters at the end of a reply that are read
LARGEST = 64  # an array with more numbers than this is not listed


class Text(Protocol):
    """The text form of an environment; `env` is the environment without wrappers. A form may also have `state(observation, env)`, which returns `Turn.state`."""

    @property
    def rules(self) -> str:
        """The text of every problem. The rules explain the goal, the signs in the observations and the words of the actions."""
        ...

    def say(self, observation: Any, env: Any) -> str:
        """Returns an observation as text."""
        ...

    def read(self, reply: str, env: Any) -> Any:
        """Returns the action that a player's reply names; None if the reply names no action."""
        ...


@dataclass(frozen=True)
class Words:
    """A text form in which each action has one word of `words`. If a reply contains several of these words, the last word counts."""

    rules: str
    words: tuple[str, ...]
    show: Callable[[Any, Any], str]  # (observation, env) -> text
    start: int = 0  # number of the first action
    whole: bool = False  # whether the text of an observation contains the whole state

    def say(self, observation: Any, env: Any) -> str:
        return self.show(observation, env)

    def read(self, reply: str, env: Any) -> int | None:
        found: list[str] = re.findall(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, self.words))})(?!\w|\.\d)", reply[-TAIL:].lower())
        return self.start + self.words.index(found[-1]) if found else None

    def state(self, observation: Any, env: Any) -> str | None:
        return self.show(observation, env) if self.whole else None


def any_text(name: str, env: Any) -> Words:
    """Returns a form for numbered actions and observations of a few numbers. Raises UserError for other actions."""
    space = env.action_space
    if type(space).__name__ != "Discrete":
        raise UserError(
            f"gymnasium:{name} has actions of the kind {type(space).__name__}, but only numbered actions (Discrete) have a text form; give your "
            "own text form with --task.text FILE.py:NAME"
        )
    first, last = int(space.start), int(space.start + space.n) - 1
    rules = f"Act in the environment {name}. An observation lists its numbers. Say the number of an action, {first} to {last}."
    return Words(rules, tuple(str(n) for n in range(first, last + 1)), lambda observation, env: listed(observation), first)


def listed(observation: Any) -> str:
    """Returns a number, a text, a small array, or a tuple or mapping of these, as text. Raises UserError for a large array or another object."""
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):
        return ", ".join(f"{name}: {listed(value)}" for name, value in observation.items())
    if isinstance(observation, bool | int | float | np.number | np.bool_):
        return number(observation)
    if isinstance(observation, tuple):
        return f"({', '.join(map(listed, observation))})"
    if isinstance(observation, np.ndarray) and observation.size <= LARGEST:
        return number(observation[()]) if observation.ndim == 0 else f"[{', '.join(map(listed, observation))}]"
    size = f" of shape {observation.shape}" if isinstance(observation, np.ndarray) else ""
    raise UserError(
        f"an observation of the kind {type(observation).__name__}{size} has no text form; write a class with the attribute `rules` and the "
        "methods `say(observation, env)` and `read(reply, env)`, and give it with --task.text FILE.py:NAME"
    )


def number(value: Any) -> str:
    """Returns a number as text: a whole number with all digits, any other number with four significant digits."""
    return str(int(value)) if isinstance(value, bool | int | np.integer | np.bool_) else f"{float(value):.4g}"


def marked(lines: Iterable[str], row: int, column: int, mark: str = "P") -> str:
    """Returns lines of text with a mark at one position."""
    grid = [list(line) for line in lines]
    grid[row][column] = mark
    return "\n".join("".join(line) for line in grid)


def lake(observation: Any, env: Any) -> str:
    lines = [b"".join(row).decode() for row in env.desc]
    return marked(lines, *divmod(int(observation), len(lines[0])))


def cliff(observation: Any, env: Any) -> str:
    rows, columns = env.shape
    lines = ["." * columns] * (rows - 1) + ["S" + "C" * (columns - 2) + "G"]
    return marked(lines, *divmod(int(observation), columns))


STOPS = "RGYB"


def taxi(observation: Any, env: Any) -> str:
    row, column, passenger, destination = env.decode(int(observation))
    lines = [b"".join(line).decode() for line in env.desc]
    where = "in the taxi" if passenger == len(STOPS) else f"at {STOPS[passenger]}"
    return f"{marked(lines, row + 1, 2 * column + 1, 'T')}\npassenger {where}, to {STOPS[destination]}"


def cards(observation: Any, env: Any) -> str:
    total, dealer, ace = (int(part) for part in observation)
    return f"your sum {total}{', with an ace as 11' if ace else ''}; the dealer shows {'an ace' if dealer == 1 else dealer}"


OBJECTS = {
    "unseen": "?",
    "empty": ".",
    "wall": "#",
    "floor": ".",
    "door": "D",
    "key": "K",
    "ball": "O",
    "box": "X",
    "goal": "G",
    "lava": "~",
}


def view(observation: Any, env: Any) -> str:
    """Returns the field of view of a MiniGrid player, who stands in the middle of the last line and looks up. The lines below the view name the objects."""
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT, STATE_TO_IDX

    image, states = observation["image"], {number: name for name, number in STATE_TO_IDX.items()}
    width, height = image.shape[:2]
    kinds = [[IDX_TO_OBJECT[int(image[x, y, 0])] for x in range(width)] for y in range(height)]
    held = kinds[-1][width // 2]
    things = [
        f"{states[int(image[x, y, 2])] + ' ' if kind == 'door' else ''}{IDX_TO_COLOR[int(image[x, y, 1])]} {kind} {place(x, y, width, height)}"
        for y, line in enumerate(kinds)
        for x, kind in enumerate(line)
        if kind in ("door", "key", "ball", "box") and (x, y) != (width // 2, height - 1)
    ]
    if held in ("key", "ball", "box"):
        things.append(f"you carry a {IDX_TO_COLOR[int(image[width // 2, height - 1, 1])]} {held}")
    grid = marked(["".join(OBJECTS.get(kind, kind[0].upper()) for kind in line) for line in kinds], height - 1, width // 2)
    return "\n".join([str(observation["mission"]), grid, *things])


def place(x: int, y: int, width: int, height: int) -> str:
    """Returns a position relative to the player, such as "2 ahead, 1 left"."""
    ahead, side = height - 1 - y, x - width // 2
    beside = f", {abs(side)} {'right' if side > 0 else 'left'}" if side else ""
    return f"{ahead} ahead{beside}"


_LAKE = "Walk from S to G over frozen ground F, not into a hole H; P is you. The ice may make you slip. Say left, down, right or up."
_CLIFF = (
    "Walk from S to G, not onto the cliff C, which costs 100 and sets you back to S; P is you, a step costs 1. Say up, right, down or left."
)
_TAXI = (
    "Drive the taxi T to the passenger's stop, pick the passenger up, drive to the other stop and drop the passenger off. "
    "| is a wall, : is open. Say south, north, east, west, pickup or dropoff."
)
_CARDS = "Blackjack: get closer to 21 than the dealer, not above it. Say stick or hit."
_VIEW = (
    "Do the mission. P is you, in the middle of the last line, looking up; # wall, . floor, ? unseen, G goal, ~ lava, D door, K key, O ball, "
    "X box. Say left or right to turn, forward, pickup, drop, toggle to open, or done."
)

FORMS: tuple[tuple[str, Text], ...] = (
    ("gymnasium.envs.toy_text.frozen_lake", Words(_LAKE, ("left", "down", "right", "up"), lake, whole=True)),
    ("gymnasium.envs.toy_text.cliffwalking", Words(_CLIFF, ("up", "right", "down", "left"), cliff, whole=True)),
    ("gymnasium.envs.toy_text.taxi", Words(_TAXI, ("south", "north", "east", "west", "pickup", "dropoff"), taxi, whole=True)),
    ("gymnasium.envs.toy_text.blackjack", Words(_CARDS, ("stick", "hit"), cards, whole=True)),
    ("minigrid.", Words(_VIEW, ("left", "right", "forward", "pickup", "drop", "toggle", "done"), view)),
)
"""The built-in forms, by the module of the environment's class or by the beginning of the module's name."""


def form_of(name: str, env: Any) -> Text:
    """Returns the text form of an environment without wrappers: a built-in form, or else the form for numbers. Raises UserError if neither form fits."""
    modules = [base.__module__ + "." for base in type(env).__mro__]
    for start, form in FORMS:
        if any(module.startswith(start) for module in modules):
            return form
    return any_text(name, env)
