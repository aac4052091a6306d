"""The queue of calls to a pool: waiting calls, attempts and answers. After many time-outs, a rule ends the retries."""

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

_HOPELESS = 8  # after this number of time-outs without any answer, the waiting calls fail


@dataclass(frozen=True)
class Limits:
    """The limits of a call, and its retries."""

    seconds: float = 60.0
    memory: int = 0  # memory in bytes that a call may use in addition to the loaded code; 0: no limit
    retries: int = 1  # number of repetitions of a call that timed out, ran out of memory or lost its process
    workers: int | None = None  # largest number of processes; None: one per core


@dataclass(frozen=True)
class Question:
    """One call: its keywords, the number of its completions, and its name in messages."""

    arguments: Mapping[str, Any]
    count: int
    about: str = ""


def overtime(seconds: float) -> str:
    """Returns the reason for a time-out. The text names the field that sets the limit."""
    return f"did not answer within {seconds:g} seconds, the limit that --reward.timeout sets"


def overfull(reason: str, memory: int) -> str:
    """Returns `reason` for a call that ran out of memory, with the limit and the field that sets the limit. `memory`: the limit in bytes; 0: no limit."""
    return f"{reason}, at the limit of {memory / (1 << 30):.3g} GiB that --reward.memory sets" if memory else reason


class CallQueue:
    """The questions of one `ask`: the waiting questions, the attempts of each question, and the answers."""

    def __init__(self, questions: Sequence[Question], limits: Limits) -> None:
        self.questions, self.limits = questions, limits
        self.waiting = deque(range(len(questions)))
        self.attempts = [0] * len(questions)
        self.answers: list[Answer | None] = [None] * len(questions)
        self.open = len(questions)
        self.answered = self.late = self.losses = 0
        self.one_by_one = False  # True after a call has ended the fork server, and with it all workers
        self.began = time.monotonic()

    @property
    def found(self) -> list[Answer]:
        return [answer for answer in self.answers if answer is not None]

    def line(self, number: int) -> bytes:
        """Returns the line for a worker: the call's number, and its keywords in JSON. Raises UserError if a value has no JSON form."""
        question = self.questions[number]
        try:
            return f"{number} {json.dumps(question.arguments, default=plain)}\n".encode()
        except UserError:
            raise
        except (ValueError, RecursionError) as error:  # an integer of more than 4,300 digits, a list that contains itself
            raise UserError(
                f"a column of {question.about or 'the data'} cannot be sent to the process of a reward function: {error}; convert the column to text"
            ) from error

    def settle(self, number: int, answer: Answer) -> None:
        if self.answers[number] is None:
            self.answers[number] = answer
            self.open -= 1
            self.answered += not (isinstance(answer, Failed) and answer.kind.chance)

    def lost(self, asked: Sequence[int], failed: Failed, charged: bool = True) -> None:
        """Handles the calls of a lost worker.

        The first call has ended the worker, and the other calls had not begun. If `charged` is False, the attempt of the first call does not count.
        """
        first, *others = asked
        self.losses += 1
        self.waiting.extendleft(reversed(others if charged else asked))
        if not charged:
            return
        self.attempts[first] += 1
        if failed.kind.chance and self.attempts[first] <= self.limits.retries:
            if self.answered:
                self.waiting.append(first)  # at the end, because the other calls may be quick
            else:
                self.waiting.appendleft(first)  # at the start, because there is no answer so far: if no call can succeed, this becomes clear soon
            return
        self.late += failed.kind is FailureKind.TIMEOUT
        again = f" ({self.attempts[first]} attempts)" if self.attempts[first] > 1 else ""
        self.settle(first, replace(failed, reason=failed.reason + again))

    def give_up(self) -> None:
        """Lets the waiting calls fail if there were many time-outs and no answer."""
        if self.late >= _HOPELESS and not self.answered:
            for number in list(self.waiting):
                again = " again" if self.attempts[number] else ""
                reason = f"was not asked{again}, because each of the calls before it {overtime(self.limits.seconds)}"
                self.settle(number, Failed(reason, FailureKind.TIMEOUT))
            self.waiting.clear()

    def fail_all(self, failed: Failed) -> None:
        for number in range(len(self.questions)):
            self.settle(number, failed)
        self.waiting.clear()
