"""Tutoring: the player teaches a scripted student, who cannot choose the operation of some steps of a calculation, and who copies the answer from a message."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from gradus.environments.scripted_user import words
from gradus.types import Frozen, Key, Problem
from gradus.types.parts import Turn, World
from gradus.types.ranges import check_ranges

OPERATIONS = Frozen(gets="add", loses="take", doubles="double")
"""Word of the story -> the operation that the student must find."""
SIGNS = Frozen(add="+", take="-", double="*")
END = "<end_of_conversation>"
"""The usual mark of the end of a dialogue."""
START = "begin"
"""The observation of a tutor who speaks first."""
Step = tuple[str, int]
"""A word of the story, and its number."""


def visible(text: str, end: str) -> str:
    """Returns the part of a message that the student sees: no thoughts, also if a thought is not closed, and no mark of the end.

    >>> visible("<think>it is 8</think>add<end>", "<end>"), visible("try<think>it is 8", "<end>")
    ('add', 'try')
    """
    return re.sub(r"<think>.*?(</think>|\Z)", "", text, flags=re.DOTALL).replace(end, "").strip()


def results(start: int, steps: Sequence[Step]) -> list[int]:
    """Returns the value after each step."""
    found = list[int]()
    for word, number in steps:
        value = found[-1] if found else start
        found.append({"add": value + number, "take": value - number, "double": value * number}[OPERATIONS[word]])
    return found


@dataclass
class Student:
    """A student. `known`: for each step, whether the student knows the operation. `told`: whether a message contained the answer."""

    start: int
    steps: tuple[Step, ...]
    known: list[bool]
    told: bool = False
    slip: float = 0.1  # the chance of a mistake in a step with a known operation

    @property
    def values(self) -> list[int]:
        return results(self.start, self.steps)

    def hear(self, text: str) -> None:
        """Reads a message. The first operation in it counts as a hint for the first unclear step."""
        said = words(text)
        self.told |= str(self.values[-1]) in said
        named = next((word for word in said if word in SIGNS), None)
        if named is not None and (at := self.unclear) is not None and OPERATIONS[self.steps[at][0]] == named:
            self.known[at] = True

    @property
    def unclear(self) -> int | None:
        """The index of the first step whose operation is unknown."""
        return next((i for i, known in enumerate(self.known) if not known), None)

    def says(self) -> str:
        """Returns the student's answer: the unclear step after the value before it, or the result."""
        if self.told or (at := self.unclear) is None:
            return f"so it is {self.values[-1]}"
        word, number = self.steps[at]
        return f"{[self.start, *self.values][at]} {word} {number}?"

    def solves(self, rng: random.Random) -> bool:
        """Draws one solution, and returns whether it is right. The student guesses the operation of an unclear step."""
        chances = [1 - self.slip if known else 1 / len(SIGNS) for known in self.known]
        return self.told or all(rng.random() < chance for chance in chances)

    def share(self, count: int, key: Key) -> float:
        """Returns the share of right solutions among `count` draws."""
        rng = key.random()
        return sum(self.solves(rng) for _ in range(count)) / count


@dataclass(frozen=True)
class Tutoring:
    """A dialogue with a student about `meta["start"]`, `meta["steps"]` and `meta["knows"]`. `meta["opens"]` tells whether the student speaks first.

    The dialogue ends if a message contains `end`, or after `limit` messages of both sides. The reward is then 1 if the student knows every operation or the
    answer, else 0. The student never sees a thought between <think> and </think>.
    """

    end: str = END
    limit: int = 16
    forks: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_ranges(self, limit="[2, inf)")

    def start(self, problem: Problem, key: Key, world: World | None) -> Lesson:
        return Lesson(problem, key, self)

    def student(self, problem: Problem, messages: Sequence[str] = ()) -> Student:
        """Returns the student after these messages of the tutor."""
        meta = problem.meta
        student = Student(int(meta["start"]), tuple((str(w), int(n)) for w, n in meta["steps"]), [bool(k) for k in meta["knows"]])
        for text in messages:
            student.hear(visible(text, self.end))
        return student

    def faults(self, problem: Problem, messages: Sequence[str]) -> dict[str, bool]:
        """Returns the faults of a dialogue. leak: a visible message has the answer. values: no message names an operation, or a message has the result of an
        earlier step."""
        *earlier, answer = self.student(problem).values
        said = [words(visible(text, self.end)) for text in messages]
        shown = {word for text in said for word in text}
        return {"leak": str(answer) in shown, "values": not shown & set(SIGNS) or any(str(value) in shown for value in earlier)}


@dataclass
class Lesson:
    """One episode with one student."""

    problem: Problem
    key: Key
    settings: Tutoring
    messages: list[str] = field(default_factory=list)  # of the tutor

    def __post_init__(self) -> None:
        self.student = self.settings.student(self.problem)
        self.count = int(self.problem.meta["opens"])  # messages of both sides
        self.first = Turn(self.student.says() if self.count else START, state=self._state())

    async def step(self, action: str) -> Turn:
        return self.play(action)

    def play(self, action: str) -> Turn:
        """Returns the student's answer to a message. A message is not legal if it has no operation, no answer and no mark of the end."""
        self.messages.append(action)
        said = visible(action, self.settings.end)
        self.student.hear(said)
        self.count += 1
        state, valid = self._state(), self.settings.end in action or bool({*SIGNS, str(self.student.values[-1])} & set(words(said)))
        if self.settings.end in action or self.count >= self.settings.limit - 1:  # the tutor has no turn after the next answer
            reward = float(self.student.told or self.student.unclear is None)
            return Turn("", reward, terminated=True, state=state, valid=valid)
        self.count += 1
        return Turn(self.student.says(), state=state, valid=valid)

    def _state(self) -> str:
        """Returns the knowledge of the student: each operation, and whether a message had the answer."""
        return f"{self.student.known} {self.student.told}"
