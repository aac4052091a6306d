"""The questions of one round to a pool: which wait, how often each was asked, what was found, and when asking is hopeless."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.rewards.calling import plain
from gradus.rewards.worker import Answer
from gradus.types import Failed, FailureKind

_HOPELESS = 8  # calls that time out with none answered before or between, after which the others are not asked


@dataclass(frozen=True)
class Limits:
    """What a call may take, and what is done about one that takes more."""

    seconds: float = 60.0
    memory: int = 0  # bytes beside what loading the code took; 0: no limit
    retries: int = 1  # how often a call is asked again that timed out, or whose process died
    workers: int | None = None  # processes at most; None: one a core


@dataclass(frozen=True)
class Question:
    """One call: its keywords, how many completions it is about, and what it is called in messages."""

    arguments: Mapping[str, Any]
    count: int
    about: str = ""


class Round:
    """The questions of one `ask`: which wait, how often each was asked, and what was found."""

    def __init__(self, questions: Sequence[Question], limits: Limits) -> None:
        self.questions, self.limits = questions, limits
        self.waiting = deque(range(len(questions)))
        self.attempts = [0] * len(questions)
        self.answers: list[Answer | None] = [None] * len(questions)
        self.open = len(questions)
        self.answered = self.late = self.losses = 0
        self.began = time.monotonic()

    @property
    def found(self) -> list[Answer]:
        return [answer for answer in self.answers if answer is not None]

    def line(self, number: int) -> bytes:
        return json.dumps(self.questions[number].arguments, default=plain).encode() + b"\n"

    def settle(self, number: int, answer: Answer) -> None:
        if self.answers[number] is None:
            self.answers[number] = answer
            self.open -= 1
            self.answered += not (isinstance(answer, Failed) and answer.kind.chance)

    def lost(self, asked: Sequence[int], failed: Failed, charged: bool = True) -> None:
        """The first of these calls ended their worker; the others never began. Not charged, it is asked as if for the first time."""
        first, *others = asked
        self.losses += 1
        self.waiting.extendleft(reversed(others if charged else asked))
        if not charged:
            return
        self.attempts[first] += 1
        if failed.kind.chance and self.attempts[first] <= self.limits.retries:
            self.waiting.append(first)  # after those that may be quick
            return
        self.late += failed.kind is FailureKind.TIMEOUT
        again = f" ({self.attempts[first]} attempts)" if self.attempts[first] > 1 else ""
        self.settle(first, replace(failed, reason=failed.reason + again))

    def give_up(self) -> None:
        """Where nothing but silence comes, the calls that wait are not asked."""
        if self.late >= _HOPELESS and not self.answered:
            self.fail_all(Failed("was not asked, since none of the calls before it answered", FailureKind.TIMEOUT), self.waiting)

    def fail_all(self, failed: Failed, numbers: Sequence[int] | None = None) -> None:
        for number in list(range(len(self.questions)) if numbers is None else numbers):
            self.settle(number, failed)
        self.waiting.clear()
