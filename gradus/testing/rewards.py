"""The contract of a reward function: each completion gets one number, every call gives the same number, and right answers get higher numbers than wrong
answers.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradus.runtime.user_code import load_object, split_spec
from gradus.testing.report import Checked, Progress, Report, brief, run_rules, sentences
from gradus.testing.subject import Effort, Subject, Texts, no_outcome, plain, subject_of
from gradus.testing.tasks import NOTHING
from gradus.testing.watched import Call, Limits, watch
from gradus.types import Failed, Problem, Trajectory, UserError
from gradus.types.parts import RewardFunction, Task
from gradus.workers.trl_signature import accepted, arguments_of, check_columns, columns_of, outcomes, own, required

Answer = tuple[Problem, str]
BATCH = 8
SECONDS = 10.0  # limit of processor time for the calls of one batch; long, because a reward may need a model


@dataclass(frozen=True)
class Rewarding:
    """A reward function under test, with the task whose answers it judges."""

    name: str
    function: RewardFunction
    subject: Subject

    def judge(self, answers: Sequence[Answer]) -> list[Any]:
        """Returns the function's values for these answers in the form of `plain`. Does not catch exceptions of the function."""
        trajectories = [Trajectory(str(i), problem, (), completion=text) for i, (problem, text) in enumerate(answers)]
        values = self.function(**accepted(self.function, own(arguments_of(trajectories, 0))))
        if inspect.isawaitable(values):
            values = asyncio.run(_awaited(values))
        found = outcomes(values, len(answers))
        if isinstance(found, Failed):
            return [{"not": found.reason}] * len(answers)
        return [{"not": o.reason} if isinstance(o, Failed) else plain(o) for o in found]

    @cached_property
    def right(self) -> list[Answer]:
        return [(p, forms[0]) for p in self.subject.problems for forms in self.subject.references(p)[:1]]

    @cached_property
    def answers(self) -> list[Answer]:
        """Right answers and empty answers in turn, so that every batch has both kinds."""
        nothing = [(p, NOTHING[i % len(NOTHING)]) for i, p in enumerate(self.subject.problems)]
        return [answer for pair in zip(self.right, nothing, strict=False) for answer in pair] or nothing

    def batches(self) -> list[list[Answer]]:
        return [self.answers[i : i + BATCH] for i in range(0, len(self.answers), BATCH)]


def check_reward(
    reward: str | RewardFunction,
    task: Task | str,
    *,
    right: Texts | None = None,
    wrong: Texts | None = None,
    effort: Effort = Effort(),
    limits: Limits = Limits(),
    only: Iterable[str] | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Tests a reward function (FILE.py:NAME, or the function itself) against its contract on the problems of a task.

    Args: `right`: a function that returns right answers to a problem (None: the worked solution, else the answer). `wrong`: a function that returns
    wrong answers, which must earn less than right answers (None: empty answers). `limits`: the limits of one call with one hostile answer. Calls with
    up to eight plain answers get at least ten seconds of processor time and twenty seconds of wall-clock time. The other arguments are as in `check_task`.
    Raises: UserError if `reward` is not a reward function, or if it needs columns that the task lacks. With `strict`, any finding raises
    ContractBroken, an AssertionError.
    """
    subject = subject_of(task, right=right, wrong=wrong, effort=effort, limits=limits)
    function, name = _function(reward)
    if subject.problems:
        check_columns(required(function), list(columns_of(subject.problems[0])), name)
    return run_rules(Rewarding(name, function, subject), f"{name} on {subject.task.name}", RULES, only, strict=strict, progress=progress)


def _function(reward: Any) -> tuple[RewardFunction, str]:
    """The reward function, and its name for reports."""
    path = getattr(reward, "path", reward)
    if isinstance(path, str):
        split_spec(path, "reward function")
        function = load_object(path, "reward function")
        if not callable(function):
            raise UserError(f"{path} is of type {type(function).__name__}; it must be a function")
        return function, path
    function = getattr(reward, "call", reward)
    if not callable(function) or hasattr(function, "score"):
        raise UserError(
            f"a contract test of a reward needs a function or FILE.py:FUNCTION, but it got an object of type {type(reward).__name__}; if it "
            "combines several rewards, test each reward function separately"
        )
    return function, str(getattr(function, "__name__", type(function).__name__))


async def _awaited(values: Any) -> Any:
    return await values


def _batched(rule: str, case: Rewarding, judge: Callable[[list[Answer]], str | None]) -> Checked:
    """Tries a rule on every batch of plain answers."""
    batches, found = case.batches(), []
    for call in watch(judge, lambda i: batches[i], len(batches), case.subject.limits.freely(SECONDS)):
        found.append(_late(call) or call.complaint or call.value)
        if call.late:
            return Checked(rule, len(case.answers), sentences(found), hung=True)
    return Checked(rule, len(case.answers), sentences(found))


def _late(call: Call) -> str | None:
    """The finding for a call with plain answers that did not end in time; None for any other call."""
    return f"it {call.error}; make it end, or raise the limit with --seconds S if it needs longer" if call.late else None


def one_each(case: Rewarding) -> Checked:
    """Each answer gets a finite number or None."""

    def judge(batch: list[Answer]) -> str | None:
        for (problem, text), value in zip(batch, case.judge(batch), strict=True):
            if isinstance(value, dict):
                return f"problem {problem.id}, answer {brief(text)}: it {value.get('not')}"
        return None

    return _batched("a number each", case, judge)


def same_again(case: Rewarding) -> Checked:
    """Equal answers get equal rewards."""

    def judge(batch: list[Answer]) -> str | None:
        one, two = case.judge(batch), case.judge(batch)
        if one == two:
            return None
        i = next(i for i in range(len(batch)) if one[i] != two[i])
        return f"problem {batch[i][0].id}: the answer {brief(batch[i][1])} earns {one[i]}, then {two[i]}; a reward must not draw at random"

    return _batched("same again", case, judge)


def any_order(case: Rewarding) -> Checked:
    """Answers get the same rewards in any order: each reward belongs to its answer."""

    def judge(batch: list[Answer]) -> str | None:
        one, two = case.judge(batch), case.judge(batch[::-1])[::-1]
        if _alike(one, two):
            return None
        i = next(i for i in range(len(batch)) if not _alike([one[i]], [two[i]]))
        return f"problem {batch[i][0].id}: the answer {brief(batch[i][1])} earns {one[i]}, and {two[i]} if the batch is reversed"

    return _batched("any order", case, judge)


def _alike(one: Sequence[Any], two: Sequence[Any]) -> bool:
    """Whether two lists are equal up to rounding. The last digits of a sum over a batch depend on the order of the batch."""
    numbers = [
        isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
        for a, b in zip(one, two, strict=True)
    ]
    return all(close or a == b for close, a, b in zip(numbers, one, two, strict=True))


def right_above_wrong(case: Rewarding) -> Checked:
    """On average, right answers earn more than the given wrong answers. If no wrong answers are given, right answers earn more than empty answers."""
    if not case.right:
        return Checked("right above wrong", skipped='no problem has a reference answer; give one as "right"')
    wrong = case.subject.wrong
    worse = [(p, str(text)) for p in case.subject.problems for text in (wrong(p) if wrong else NOTHING[:2])]

    def mean(answers: list[Answer]) -> float | None:
        values = [v for v in case.judge(answers) if isinstance(v, float)]
        return math.fsum(values) / len(values) if values else None

    sides = [case.right, worse]
    batches = -(-max(map(len, sides)) // BATCH)
    calls = list(watch(mean, lambda i: sides[i], 2, case.subject.limits.freely(SECONDS * batches)))
    found = [_late(call) or call.complaint for call in calls]
    high, low = [*(call.value for call in calls), None][:2]
    if not any(found) and high is not None and low is not None and high <= low:
        found.append(
            f"right answers earn {high:g} on average, {'wrong' if wrong else 'empty'} answers {low:g}: the model will learn to give these"
        )
    return Checked("right above wrong", len(case.right) + len(worse), sentences(found), hung=any(call.late for call in calls))


def hostile_answers(case: Rewarding) -> Checked:
    """Any text gets a reward: the function does not raise, hang, run the text as code, or use files, processes or the network."""
    subject = case.subject
    warm = case.answers[:2]

    def ask(index: int) -> Answer:
        return warm[index] if index < len(warm) else subject.hostile(index - len(warm))

    def complaint(call: Call) -> str | None:
        return call.complaint or (no_outcome(call.value) if call.value is not None else None)

    found: list[str | None] = []
    for call in watch(lambda answer: case.judge([answer])[0], ask, subject.effort.texts + len(warm), subject.limits):
        wrong = complaint(call) if call.index >= len(warm) else None
        if wrong:
            found.append(f"hostile text {call.index - len(warm)} of seed {subject.effort.seed}, {brief(ask(call.index)[1])}: {wrong}")
    return Checked("hostile answers", subject.effort.texts, sentences(found))


RULES = {
    "a number each": one_each,
    "same again": same_again,
    "any order": any_order,
    "right above wrong": right_above_wrong,
    "hostile answers": hostile_answers,
}
"""The rules for every reward function, in the order in which they are tried."""
