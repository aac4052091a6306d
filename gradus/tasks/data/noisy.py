"""A task whose verifier errs in training: it calls a given share of right answers wrong, and a given share of wrong answers right."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradus.tasks.generated import Generated, Noted
from gradus.types import Frozen, Key, Outcome, Problem, UserError, unknown
from gradus.types.parts import Task, Together, Verify

FOLDER = Path(__file__).parent.parent


def noisy(of: str = "arithmetic", level: int | None = None, missed: float = 0.0, fooled: float = 0.0) -> Task:
    """Takes a generated task of this library and gives some wrong verdicts in training. Held-out verdicts are correct.

    of: the name of the task; level: its level (None: the task's default); missed: share of the right answers that are called wrong; fooled: share of the wrong
    answers that are called right. A hash of problem and answer decides which verdicts are wrong. So equal answers to a problem always get the same
    verdict. The verdicts on one problem give no information about the errors on another problem. Raises: UserError for a share outside [0, 1], and for an
    unknown or unsuitable task. The problems of the task must be generated, and its answers must be judged one at a time.
    """
    for name, share in (("missed", missed), ("fooled", fooled)):
        if not 0 <= share <= 1:
            raise UserError(f"task noisy: `{name}` is {share}; give a share, a number from 0 to 1")
    task = task_named(of) if level is None else task_named(of, level=level)
    if not isinstance(task.source, Generated) or task.verify is None or isinstance(task.verify, Together):
        raise UserError(f"task noisy: the problems of {of} must be generated, and its answers must be judged one at a time; take another task, such as arithmetic")
    return replace(
        task,
        name="noisy",
        source=replace(task.source, make=Noted(task.source.make, Frozen(noisy=True))),
        verify=NoisyVerify(task.verify, missed, fooled),
        about="another task (of=NAME) whose verifier errs in training: it calls a share `missed` of right answers wrong, and `fooled` of wrong answers right",
    )


@dataclass(frozen=True)
class NoisyVerify:
    """Gives the verdict of `verify`. For problems that are marked as noisy, some verdicts are reversed.

    Verdicts that are not numbers do not change.
    """

    verify: Verify
    missed: float
    fooled: float

    @property
    def truth(self) -> Verify:
        """The verifier without errors."""
        return self.verify

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        verdict = self.verify(problem, completion)
        if not problem.meta.get("noisy") or not isinstance(verdict, int | float):
            return verdict
        right = verdict >= 1
        text = completion.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair has no bytes of its own
        turned = float(Key().fold("noisy", problem.id, text).uniform()) < (self.missed if right else self.fooled)
        return float(not right) if turned else verdict


def task_named(name: str, **options: Any) -> Task:
    """Makes the task of this library that has this name. Raises UserError for an unknown name, and for `noisy` itself."""
    known = {path.stem: path.parent.name for path in FOLDER.glob("*/*.py") if not path.stem.startswith("_")}
    maker = None if name not in known or name == "noisy" else getattr(importlib.import_module(f"gradus.tasks.{known[name]}.{name}"), name, None)
    if maker is None:
        raise unknown("task", name, [task for task in known if task != "noisy"], "Name a task of this library with of=NAME")
    return maker(**options)
