"""Divides answers among the calls of a reward function, and finds the answers that make a whole call fail.

A call judges `batch` answers. If a call with several answers fails, each answer is judged alone. These calls find the answers that also fail alone. Then one
call judges all other answers together. So a function that compares answers still gets all of them in one call, except the failed answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gradus.types import Failed, FailureKind, Outcome, Trajectory
from gradus.workers.call_queue import Limits, Question
from gradus.workers.logged import Log, Scores
from gradus.workers.pool import Pool
from gradus.workers.trl_signature import arguments_of
from gradus.workers.worker import Answer

Known = Callable[[str], "Failed | None"]
"""The name of a call -> the failure by a time-out or by the machine in an earlier execution of the step; None: there was no such failure."""


@dataclass(frozen=True)
class Asker:
    """Asks a pool to judge trajectories, with the given keywords and limits."""

    pool: Pool
    step: int
    limits: Limits
    names: Collection[str] | None = None  # the keywords that the function takes; None: all keywords
    known: Known = lambda name: None
    steps: int | None = None  # the number of steps of the whole run

    def __call__(self, calls: Mapping[str, Sequence[Trajectory]]) -> tuple[dict[str, Answer], dict[str, Failed]]:
        """Returns two mappings by the names of calls: the answers, and the new failures by a time-out or by the machine."""
        before = {name: self.known(name) for name in calls}
        new = [name for name, failed in before.items() if failed is None]
        asked = [Question(arguments_of(calls[n], self.step, self.names, self.steps), len(calls[n]), about(calls[n])) for n in new]
        found = dict(zip(new, self.pool.ask(asked, self.limits), strict=True))
        decided = {name: answer for name, answer in found.items() if isinstance(answer, Failed) and answer.kind.chance}
        return {name: before[name] or found[name] for name in calls}, decided


def judged(ask: Asker, trajectories: Sequence[Trajectory], batch: int | None) -> tuple[Scores, dict[str, Failed]]:
    """Returns one outcome per trajectory.

    Also returns the new failures by a time-out or by the machine, as a mapping by the names of calls.

    The log contains only the calls whose outcomes are returned. The columns of the log have None for all other answers.
    """
    size = batch or max(1, len(trajectories))
    calls = {str(start): list(range(start, min(start + size, len(trajectories)))) for start in range(0, len(trajectories), size)}
    found, decided = ask({name: [trajectories[i] for i in rows] for name, rows in calls.items()})
    suspects = {name: calls[name] for name, answer in found.items() if isinstance(answer, Failed) and len(calls[name]) > 1}
    quick = replace(ask, limits=replace(ask.limits, retries=0))  # the whole call was already repeated
    alone, more = quick({f"{name}/{i}": [trajectories[i]] for name, rows in suspects.items() for i in rows})
    decided |= more
    guilty = {name: {i: r for i in rows if (r := _failure(alone[f"{name}/{i}"]))} for name, rows in suspects.items()}
    rest = {name: [i for i in rows if i not in guilty[name]] for name, rows in suspects.items()}
    again, more = ask({f"{name}/rest": [trajectories[i] for i in rows] for name, rows in rest.items() if 0 < len(rows) < len(calls[name])})
    decided |= more
    outcomes: dict[int, Outcome] = {}
    log = Log()
    for name, rows in calls.items():
        whole = found[name]
        if name not in suspects:
            outcomes |= _spread(rows, whole)
            _add(log, rows, whole, len(trajectories))
        elif f"{name}/rest" in again:
            outcomes |= guilty[name] | _spread(rest[name], again[f"{name}/rest"])
            _add(log, rest[name], again[f"{name}/rest"], len(trajectories))
        else:  # either all answers also fail alone, or none of them does
            assert isinstance(whole, Failed)
            outcomes |= _spread(rows, whole if guilty[name] else _together(whole, len(rows)))
    scores = Scores(outcomes[i] for i in range(len(trajectories)))
    scores.log = log
    return scores, decided


def _add(log: Log, rows: Sequence[int], answer: Answer, count: int) -> None:
    """Adds the log of a call that judged these `rows`. `count` is the number of all rows."""
    more = getattr(answer, "log", None)
    if more is None:
        return
    log.metrics += more.metrics
    for name, values in more.columns.items():
        column = log.columns.setdefault(name, [None] * count)
        for row, value in zip(rows, values, strict=True):
            column[row] = value


def about(trajectories: Sequence[Trajectory]) -> str:
    """Returns a short name for the trajectories of a call."""
    first = f"problem {trajectories[0].problem.id}" if trajectories else "nothing"
    return first if len(trajectories) < 2 else f"{first} and {len(trajectories) - 1} more answers"


def _failure(answer: Answer) -> Failed | None:
    """Returns the failure of a call with one answer: the failure of the call, or the failure of its only outcome; None if nothing failed."""
    if isinstance(answer, Failed):
        return answer
    return answer[0] if isinstance(answer[0], Failed) else None


def _spread(rows: Sequence[int], answer: Answer) -> dict[int, Outcome]:
    return dict(zip(rows, [answer] * len(rows) if isinstance(answer, Failed) else answer, strict=True))


def _together(whole: Failed, count: int) -> Failed:
    """Returns the failure for the case that a call with all answers fails, but no call with a single answer does."""
    remedy = "; give it more time, or fewer answers per call with batch" if whole.kind is FailureKind.TIMEOUT else ""
    return replace(
        whole, reason=f"{whole.reason}, in a call with {count} answers at once, but in calls about one answer each it did not fail{remedy}"
    )
