"""A scripted judge with known errors and a known hole, for tests and proving grounds. The scripted judge replaces a judge that is a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradus.rewards.judge import Check
from gradus.rewards.verdicts import Case, Form, Verdict, won
from gradus.types import Failed, Key, Problem, UserError
from gradus.types.parts import Task, World
from gradus.types.ranges import check_ranges

Quality = Callable[[Problem, str], float]
"""The true quality of an answer, from 0 to 1."""

Sound = Callable[[Problem, str], Sequence[bool]]
"""Whether each step of an answer is right."""


@dataclass(frozen=True)
class Phrase:
    """A hole of a judge: every answer that contains the text is judged as right."""

    text: str

    def __call__(self, problem: Problem, completion: str) -> bool:
        return self.text in completion


@dataclass(frozen=True)
class ScriptedJudge:
    """A judge that gives the true quality of answers, with errors. A hash of the problem and the answers decides about each error, so the same answers get
    the same error in every step.

    Points: a share `missed` of the right answers (quality 1) gets 0, and a share `fooled` of the other answers gets 1. Pairs: a share `reversed` of the pairs
    is decided in favour of the worse answer, and a share `first` in favour of the answer that is shown first. Lists: the qualities. Steps: a share `missed`
    of
    the answers without a wrong step is called wrong at the first step, and a share `fooled` of the others is called right. An answer in `hole` always has
    quality 1 and no wrong step. A share `silent` of all cases gets no verdict.
    """

    truth: Quality | None = None  # None: the function `truth` of the task's verifier, else the verifier itself
    sound: Sound | None = None  # None: the function `sound` of the task's verifier
    missed: float = 0.0
    fooled: float = 0.0
    reversed: float = 0.0
    first: float = 0.0
    silent: float = 0.0
    hole: Check | None = None

    def __post_init__(self) -> None:
        check_ranges(self, missed="[0, 1]", fooled="[0, 1]", reversed="[0, 1]", first="[0, 1]", silent="[0, 1]")

    def check_form(self, form: Form, task: Task) -> None:
        """Raises UserError if the form needs a truth that neither this part nor the task's verifier has."""
        if form.kind == "steps":
            self._sound(task)
        else:
            self._truth(task)

    async def decide(self, form: Form, cases: Sequence[Case], world: World) -> list[Verdict | Failed | None]:
        made = {"point": self._point, "pair": self._pair, "list": self._list, "steps": self._steps}[form.kind]
        return [None if chance("silent", case, *case.answers) < self.silent else made(case, world.task) for case in cases]

    def quality(self, case: Case, index: int, task: Task) -> float:
        """Returns the quality of an answer, without errors; 1 for an answer in the hole, and 0 if the truth is not a number."""
        answer = case.answers[index] if case.completion is None else case.completion
        if self.hole is not None and self.hole(case.problem, answer):
            return 1.0
        found = self._truth(task)(case.problem, answer)
        return float(found) if isinstance(found, int | float) else 0.0

    def _point(self, case: Case, task: Task) -> Verdict:
        return (self._mistaken(case, self.quality(case, 0, task), right=self.quality(case, 0, task) >= 1),)

    def _pair(self, case: Case, task: Task) -> Verdict:
        if chance("first", case, *case.answers) < self.first:
            return (1.0,)
        true = won(self.quality(case, 0, task), self.quality(case, 1, task))
        return (1 - true if chance("reversed", case, *sorted(case.answers)) < self.reversed else true,)

    def _list(self, case: Case, task: Task) -> Verdict:
        return tuple(self.quality(case, i, task) for i in range(len(case.answers)))

    def _steps(self, case: Case, task: Task) -> Verdict:
        count = len(case.steps)
        if self.hole is not None and self.hole(case.problem, case.answers[0]):
            return (1.0,) * count
        true = [*map(bool, self._sound(task)(case.problem, case.answers[0])), *[False] * count][:count]
        first = true.index(False) if False in true else count
        called = self._mistaken(case, float(first == count), right=first == count)
        kept = first if called == float(first == count) else count if called else 0
        return tuple(float(i < kept) for i in range(count))

    def _mistaken(self, case: Case, value: float, right: bool) -> float:
        if self.hole is not None and self.hole(case.problem, case.answers[0]):
            return value
        turned = chance("mistake", case, case.answers[0]) < (self.missed if right else self.fooled)
        return float(not right) if turned else value

    def _truth(self, task: Task) -> Quality:
        found = self.truth if self.truth is not None else getattr(task.verify, "truth", task.verify)
        if found is None:
            raise UserError(f"neither ScriptedJudge nor task {task.name} knows right answers; give ScriptedJudge.truth, or take a task with a verifier")
        return found  # type: ignore[return-value]

    def _sound(self, task: Task) -> Sound:
        found: Sound | None = self.sound if self.sound is not None else getattr(task.verify, "sound", None)
        if found is None:
            remedy = "give ScriptedJudge.sound, or take a task with checked steps, such as flawed"
            raise UserError(f"neither ScriptedJudge nor task {task.name} knows right steps; {remedy}")
        return found


def chance(name: str, case: Case, *texts: str) -> float:
    """Returns a number in [0, 1) that depends only on the problem and the texts."""
    plain = (text.encode("utf-8", "backslashreplace").decode() for text in texts)  # half of a surrogate pair cannot be encoded alone
    return float(Key().fold("scripted judge", name, case.problem.id, *plain).uniform())
