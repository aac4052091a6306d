"""The questions of one round to a pool: which wait, how often each was asked, what was found, and when asking is hopeless."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.types import Failed, FailureKind, UserError
from gradus.workers.trl_signature import plain
from gradus.workers.worker import Answer

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


def overtime(seconds: float) -> str:
    """The reason of a failure, with the field that sets the limit."""
    return f"did not answer within {seconds:g} seconds, the limit that --reward.timeout sets"


def overfull(reason: str, memory: int) -> str:
    """The reason of a failure, with the field that sets the limit of so many bytes (0: none)."""
    return f"{reason}, at the limit of {memory / (1 << 30):.3g} GiB that --reward.memory sets" if memory else reason


class CallQueue:
    """The questions of one `ask`: which wait, how often each was asked, and what was found."""

    def __init__(self, questions: Sequence[Question], limits: Limits) -> None:
        self.questions, self.limits = questions, limits
        self.waiting = deque(range(len(questions)))
        self.attempts = [0] * len(questions)
        self.answers: list[Answer | None] = [None] * len(questions)
        self.open = len(questions)
        self.answered = self.late = self.losses = 0
        self.one_by_one = False  # whoever ends the process that starts the workers ends the calls of all
        self.began = time.monotonic()

    @property
    def found(self) -> list[Answer]:
        return [answer for answer in self.answers if answer is not None]

    def line(self, number: int) -> bytes:
        """What a worker is sent: the call's number, and its keywords in JSON. Raises UserError for what cannot be sent."""
        question = self.questions[number]
        try:
            return f"{number} {json.dumps(question.arguments, default=plain)}\n".encode()
        except UserError:
            raise
        except (ValueError, RecursionError) as error:  # a whole number of more than 4,300 digits, a list that holds itself
            raise UserError(
                f"a column of {question.about or 'the data'} cannot be given to a reward function in its process: {error}; turn it into text"
            ) from error

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
            if self.answered:
                self.waiting.append(first)  # after those that may be quick
            else:
                self.waiting.appendleft(first)  # where nothing answers, that is to be known soon
            return
        self.late += failed.kind is FailureKind.TIMEOUT
        again = f" ({self.attempts[first]} attempts)" if self.attempts[first] > 1 else ""
        self.settle(first, replace(failed, reason=failed.reason + again))

    def give_up(self) -> None:
        """Where nothing but silence comes, the calls that wait are not asked."""
        if self.late >= _HOPELESS and not self.answered:
            for number in list(self.waiting):
                again = " again" if self.attempts[number] else ""
                reason = f"was not asked{again}, since each of the calls before it {overtime(self.limits.seconds)}"
                self.settle(number, Failed(reason, FailureKind.TIMEOUT))
            self.waiting.clear()

    def fail_all(self, failed: Failed) -> None:
        for number in range(len(self.questions)):
            self.settle(number, failed)
        self.waiting.clear()
