"""Find the hidden item among a few items by asking for attributes. The answers come from a table, so they are always true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.parts import Turn, World

RIGHT_REWARD = 1.0  # reward for naming the hidden item; every other turn gives 0, also a wrong guess
TAIL = 200  # characters of an action that are read, from its end
REMINDED = 6  # attributes in a reminder
SAID = re.compile(r"\b(?:is it|it is|it's) (?:an? |the )?([a-z]+)")


@dataclass(frozen=True)
class TwentyQuestions:
    """Hides `problem.answer`, one of `problem.meta["candidates"]`. An attribute's name is a question; an item's name ends the episode."""

    limit: int = 20  # largest number of turns; then the episode is truncated

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise UserError(f"twenty_questions: `limit` is {self.limit}; it must be 1 turn or more")

    def start(self, problem: Problem, key: Key, world: World) -> Quiz:
        return Quiz(problem.answer, tuple(problem.meta["candidates"]), self)


class Quiz:
    """One episode about one hidden item."""

    def __init__(self, item: str, candidates: tuple[str, ...], settings: TwentyQuestions) -> None:
        if item not in candidates or not set(candidates) <= set(table()):
            raise ValueError(f"the hidden item {item} must be a candidate, and all candidates must be in the table")
        self.item, self.left, self.settings, self.turns, self.reminders = item, candidates, settings, 0, 0
        self.first = Turn("", state=self._state())  # the candidates stand in the problem's question, which stays in the context

    def _state(self) -> str:
        """Returns the candidates that fit all answers so far."""
        return " ".join(sorted(self.left))

    async def step(self, action: str) -> Turn:
        return self.play(action)

    def play(self, action: str) -> Turn:
        """Returns the turn after one action. An action without an attribute or item uses up a turn and gets a reminder of a few attributes."""
        self.turns += 1
        truncated = self.turns >= self.settings.limit
        said = parse(action)
        if said in table():
            right = said == self.item
            return Turn("right" if right else "wrong", RIGHT_REWARD if right else 0.0, terminated=True, state=self._state())
        if said not in attributes():
            self.reminders += 1
            return Turn(f"ask: {' '.join(some_attributes(self.reminders))}", truncated=truncated, state=self._state(), valid=False)
        has = said in table()[self.item]
        self.left = tuple(c for c in self.left if (said in table()[c]) == has)
        return Turn("yes" if has else "no", truncated=truncated, state=self._state())


def parse(action: str) -> str:
    """Returns the word after the last 'is it' or 'it is' (an article is skipped); '' if there is no such word."""
    said = SAID.findall(" ".join(action[-TAIL:].lower().split()))
    return said[-1] if said else ""


@cache
def _stored() -> dict[str, dict]:
    return json.loads(files("gradus.tasks.games").joinpath("twenty_questions.json").read_text(encoding="utf-8"))


@cache
def table() -> Mapping[str, frozenset[str]]:
    """Item -> its attributes. No two items have the same set of attributes."""
    return Frozen({item: frozenset(has) for item, has in _stored()["items"].items()})


@cache
def attributes() -> tuple[str, ...]:
    """Returns all attributes, in the order of the table."""
    return tuple(_stored()["attributes"])


def some_attributes(reminder: int) -> tuple[str, ...]:
    """Returns the attributes in reminder number `reminder` (from 1): only a few, because contexts are short. The next reminder has the next attributes."""
    first = (reminder - 1) * REMINDED
    return tuple(attributes()[i % len(attributes())] for i in range(first, first + REMINDED))


def best_question(candidates: Iterable[str]) -> str:
    """Returns the attribute that splits the candidates most evenly; if several attributes do this, the first of them in the table."""
    left = list(candidates)
    return min(attributes(), key=lambda attribute: abs(2 * sum(attribute in table()[c] for c in left) - len(left)))


def solution(item: str, candidates: Sequence[str]) -> list[str]:
    """Returns the actions that find the item: the best question as long as there are several candidates, then the guess."""
    left, actions = list(candidates), []
    while len(left) > 1:
        attribute = best_question(left)
        actions.append(f"is it {attribute}?")
        left = [c for c in left if (attribute in table()[c]) == (attribute in table()[item])]
    return [*actions, f"it is {item}"]
