"""The subject of a contract test: a task, the problems drawn from it, and the number of tries."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradus.testing.hostile import hostile_text
from gradus.testing.watched import Limits
from gradus.types import NOT_APPLICABLE, Failed, Frozen, Key, Outcome, Problem, UserError
from gradus.types.media import readable
from gradus.types.parts import Environment, Source, Task
from gradus.types.spaces import Action, Box, Choice, Text

Texts = Callable[[Problem], Iterable[str]]
"""Texts for a problem: right answers, wrong answers, or the actions that win one episode."""


FORMS = ("?", "\\boxed{?}", "#### ?", "=?", "answer: ?", "<answer>?</answer>", "The answer is $?$.")
"""Forms of an answer, for verifiers that do not accept the answer alone."""
LONGEST = 2000  # characters of a right answer or question that go into hostile texts


@dataclass(frozen=True)
class Effort:
    """The number of tries."""

    problems: int = 20  # problems per level
    texts: int = 500  # hostile texts for all problems together
    seed: int = 0
    levels: tuple[int, ...] | None = None  # levels to try; None: all levels of the task

    def __post_init__(self) -> None:
        for name in ("problems", "texts"):
            if getattr(self, name) < 1:
                raise UserError(f"effort: `{name}` is {getattr(self, name)}; it must be 1 or more")


@dataclass(frozen=True)
class Subject:
    """A task under test. `spec`: the name of the task, if the user gave a name. With a name, another process can also make the task."""

    task: Task
    spec: str | None = None
    right: Texts | None = None
    wrong: Texts | None = None
    effort: Effort = Effort()
    limits: Limits = Limits()
    world: Any = None  # the argument `world` of an environment's episodes
    given: tuple[Problem, ...] = field(default=(), compare=False)  # problems to try; empty: problems are drawn

    @property
    def levels(self) -> list[int | None]:
        """The levels to try; [None] if the task has no levels."""
        levels = getattr(self.task.source, "levels", None)
        if levels is None or self.given:
            return [None]
        return list(range(levels[0], levels[1] + 1) if self.effort.levels is None else self.effort.levels)

    def indices(self, source: Source) -> range:
        """The indices of the problems to try, which are the first problems of the source."""
        return range(self.effort.problems if source.size is None else min(self.effort.problems, source.size))

    def draw(self, level: float | None, indices: Sequence[int] | None = None, key: Key | None = None) -> list[Problem]:
        """Draws the problems of a level with these indices. Each call draws the problems again. Without `indices`, draws the first problems. Without `key`,
        the seed determines the key.
        """
        source = self.task.source
        return source.draw(self.indices(source) if indices is None else indices, level, self.key if key is None else key)

    @property
    def key(self) -> Key:
        return Key(self.effort.seed)

    @cached_property
    def drawn(self) -> dict[int | None, list[Problem]]:
        """The first problems of every level."""
        return {level: self.draw(level) for level in self.levels}

    @cached_property
    def problems(self) -> list[Problem]:
        """The given problems, else the drawn problems of all levels."""
        return list(self.given) or [p for drawn in self.drawn.values() for p in drawn]

    def references(self, problem: Problem) -> list[tuple[str, ...]]:
        """Returns the right answers to a problem; the list is empty if no answer is known.

        Each answer is a tuple of forms, and the verifier must accept at least one form. A worked solution has one form. An answer without a solution has all
        usual forms, because the required form depends on the verifier.
        """
        if self.right is not None:
            return [(str(text),) for text in self.right(problem)]
        solution = problem.meta.get("solution")
        if isinstance(solution, str):
            return [(solution,)]
        if getattr(self.task.verify, "answers_are_tests", False):
            return []
        answer = problem.reference
        return [] if answer is None else [tuple(form.replace("?", answer) for form in FORMS)]

    @cached_property
    def like(self) -> list[str]:
        """Right answers and questions, as material for hostile texts."""
        some = self.problems[:: max(1, len(self.problems) // 60)]
        return [text[:LONGEST] for p in some for text in (*[forms[0] for forms in self.references(p)], said(p))] or ["1"]

    def hostile(self, index: int) -> tuple[Problem, str]:
        """Returns a problem, and hostile text number `index` as an answer to it."""
        return self.problems[index % len(self.problems)], hostile_text(index, self.like, self.effort.seed)


def subject_of(task: Task | str, **more: Any) -> Subject:
    """Returns the subject for a task or its name. Raises UserError for an unknown name, a wrong type, or a level that the task lacks."""
    if isinstance(task, str):
        from gradus.training.plan import load_task

        subject = Subject(load_task(task), task, **more)
    elif isinstance(task, Task):
        subject = Subject(task, **more)
    else:
        raise UserError(f"a contract test of a task needs a Task or its name, but it got an object of type {type(task).__name__}; give FILE.py:NAME, or make a Task")
    known = getattr(subject.task.source, "levels", None)
    for level in subject.effort.levels or ():
        if known is None or not known[0] <= level <= known[1]:
            has = "no levels" if known is None else f"levels {known[0]} to {known[1]}"
            raise UserError(f"effort: task {subject.task.name} has {has}, but effort.levels has level {level}; give other levels, or leave levels out")
    return subject


def environment_of(subject: Subject) -> Environment:
    assert subject.task.environment is not None
    return subject.task.environment


def of_arrays(environment: Environment | None) -> bool:
    """Whether an environment shows arrays and no text or pictures. A controller plays such an environment by the actions of its space."""
    return getattr(environment, "shows", None) == frozenset({"array"})


def some_actions(environment: Environment, key: Key, count: int) -> list[Action]:
    """Draws actions from the environment's own space: indices for a Choice, numbers within the bounds for a Box, none for text."""
    space = getattr(environment, "acts", Text())
    if isinstance(space, Choice):
        return [int(i) for i in key.uniform(count) * len(space.names)]
    if isinstance(space, Box):
        low, high = np.array(space.low), np.array(space.high)
        shape = (space.size,) if space.chunk == 1 else (space.chunk, space.size)
        return [(low + (high - low) * key.fold(i).uniform(*shape)).astype(np.float32) for i in range(count)]
    return []


def allowed(part: Any) -> frozenset[str]:
    """The resources that a verifier or environment may use without a finding: processes and files if it has a `sandbox`, else none."""
    return frozenset({"process", "file"} if getattr(part, "sandbox", None) is not None else ())


def said(problem: Problem) -> str:
    """The full text of a problem."""
    return problem.text if problem.text is not None else "\n".join(map(readable, problem.messages))


def content(problem: Problem) -> str:
    """Returns a problem as text, without its id. Equal problems have equal texts."""
    from gradus.lab.arrow import plain_json

    return plain_json([problem.text, problem.messages, problem.answer, problem.meta])


def stored(problem: Problem) -> Problem:
    """Returns a problem in the form that is read from a run's folder: tuples become lists, and values that JSON does not have become text."""
    from gradus.lab.arrow import plain_json

    return replace(problem, answer=json.loads(plain_json(problem.answer)), meta=Frozen(json.loads(plain_json(problem.meta))))


def plain(outcome: Outcome) -> Any:
    """Returns an outcome for a report: a number, "not applicable" or {"failed": reason}. A value that is not an outcome gives {"not": description}."""
    if outcome is NOT_APPLICABLE:
        return "not applicable"
    if isinstance(outcome, Failed):
        return {"failed": outcome.reason}
    if isinstance(outcome, bool) or not hasattr(type(outcome), "__float__") or isinstance(outcome, str):
        return float(outcome) if isinstance(outcome, bool) else {"not": f"{type(outcome).__name__} {ascii(outcome)[:60]}"}
    number = float(outcome)
    return number if math.isfinite(number) else {"not": str(number)}


def no_outcome(value: Any) -> str | None:
    """Returns the error in a verdict, or None if the verdict is a valid outcome."""
    if isinstance(value, dict) and "not" in value:
        return f"is judged {value['not']}, which is not a reward; give a finite number, NOT_APPLICABLE or Failed"
    if isinstance(value, dict) and "changed" in value:
        return "makes the verifier change the problem, which is also used to judge other answers; change a copy"
    return None


def full(value: Any) -> bool:
    """Whether a verdict is a number of at least 1, so that the answer counts as right."""
    return isinstance(value, float | int) and value >= 1.0
