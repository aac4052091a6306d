"""A task that asks whether a given answer to a problem of another task is right."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any

from gradus.tasks.data.noisy import task_named
from gradus.tasks.generated import Draft, Generated, Make, is_held_out
from gradus.tasks.kinds import verify_exact
from gradus.types import Frozen, Sampling, UserError
from gradus.types.parts import Task


def checked(of: str = "arithmetic", level: int | None = None) -> Task:
    """Takes a generated task of this library and shows each problem with an answer. The answer is right in half of the problems. The policy answers yes or
    no.

    of: the name of the task; level: its level (None: the task's default). The worked solution is the problem's solution, followed by the verdict. If
    the right answer is a whole number, a wrong answer is a number near it; otherwise a wrong answer is the answer to another problem. The column
    `questions` has one pair: the problem with the shown answer, and the right answer (for an actor that refines the shown answer). Raises: UserError for an unknown
    task, and for a task whose problems are not generated.
    """
    task = task_named(of) if level is None else task_named(of, level=level)
    if not isinstance(task.source, Generated):
        raise UserError(f"task checked: the problems of {of} must be generated; take another task, such as arithmetic")
    source = replace(task.source, task="checked", make=Checking(task.source.make, task.source.task))
    return replace(
        task,
        name="checked",
        source=source,
        held_out=replace(source, held_out=True),
        verify=verify_exact,
        sampling=Sampling(max_tokens=task.sampling.limit + 4),
        chance=1 / 2,
        provides=frozenset({"solution", "difficulty", "questions"}),
        about='is this answer right? "check 12+30 43" -> "...=42=no"; another task (of=NAME) gives the problems; level: as in that task',
    )


def checking(question: str, answer: str) -> str:
    """Writes the question whether an answer is right.

    >>> checking("12+30", "43")
    'check 12+30 43'
    """
    return f"check {question} {answer}"


@dataclass(frozen=True)
class Checking:
    """Makes a draft that asks whether an answer to a draft of `make` is right. The source uses only contents that are held out in both tasks, or in
    neither."""

    make: Make
    task: str  # the name of the task that gives the problems

    def __call__(self, rng: random.Random, level: Any) -> Draft:
        draft = self.make(rng, level)
        while is_held_out(self.task, draft.content) != is_held_out("checked", draft.content):
            draft = self.make(rng, level)
        right = rng.random() < 0.5
        shown = str(draft.answer) if right else self._wrong(draft, rng, level)
        verdict = "yes" if right else "no"
        solution = f"{draft.solution}={verdict}" if draft.solution is not None else f"={verdict}"
        return Draft(
            checking(draft.question, shown),
            verdict,
            solution,
            draft.content,
            Frozen(category=verdict, questions=((f"{draft.question} {shown}", draft.answer),)),
        )

    def _wrong(self, draft: Draft, rng: random.Random, level: Any) -> str:
        answer = str(draft.answer)
        if re.fullmatch(r"-?[0-9]{1,18}", answer):
            return str(int(answer) + rng.choice((-10, -2, -1, 1, 2, 10)))
        others = (str(self.make(rng, level).answer) for _ in range(50))
        return next((other for other in others if other != answer), answer[::-1] + "x")
