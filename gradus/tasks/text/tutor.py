"""The task tutor: teach a student to choose the operations of a calculation, without the answer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

from gradus.environments.tutoring import OPERATIONS, Lesson, Student, Tutoring, results
from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Key, Problem, Sampling, UserError
from gradus.types.parts import Task

LEVELS = (1, 3)  # fewest and most steps, less one
END = "<end>"
KNOWN = 0.3  # the chance that the student knows the operation of a step
ACTS = (("hint", 0.5), ("wrong", 0.1), ("leak", 0.2), ("idle", 0.2))
"""The acts of a tutor without skill, with their chances."""


def tutor(level: int = 1, skill: float = 1.0) -> Task:
    """Makes the task: teach a student to solve a calculation of `level` + 1 steps. The prompt has the calculation and its result.

    The student cannot choose the operation of some steps. A message that names the right operation helps with the first unclear step. A message with the
    result lets the student copy it. `skill`: the share of the training problems whose demonstration is an expert's, who only names operations; the other
    demonstrations also have wrong hints, the result, and messages without help. Raises: UserError for a share outside [0, 1].
    """
    if not 0 <= skill <= 1:
        raise UserError(f"task tutor: `skill` is {skill}; give a share, a number from 0 to 1")
    source = Generated("tutor", make, level, LEVELS)
    return Task(
        "tutor",
        source if skill == 1 else replace(source, make=partial(make, skill=skill)),
        replace(source, held_out=True),
        environment=Tutoring(END),
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about='teach a student which operation a step needs: "6 gets 5?" -> "add"; a turn is a message; level: steps minus one',
        sampling=Sampling(max_tokens=24),
        level=level,
        chance=0.0,
    )


def make(rng: Random, level: int, *, skill: float = 1.0) -> Draft:
    """Draws a calculation and a student. Values lie between 1 and 99, and the result occurs neither in the calculation nor before its end."""
    while True:
        start, steps = rng.randint(3, 12), tuple((w, 2 if w == "doubles" else rng.randint(2, 9)) for w in rng.choices(list(OPERATIONS), k=level + 1))
        *earlier, answer = results(start, steps)
        if all(0 < value < 100 for value in (*earlier, answer)) and answer not in (start, *earlier, *(number for _, number in steps)):
            break
    knows = [rng.random() < KNOWN for _ in steps]
    knows[rng.randrange(len(knows))] = False
    story = " ".join([str(start), *(f"{word} {number}" for word, number in steps)])
    meta = {"start": start, "steps": steps, "knows": tuple(knows), "opens": rng.random() < 0.5, "question": story}
    problem = Problem("p", "tutor", text="", meta=Frozen(meta))
    while True:
        said = actions(rng, Student(start, steps, list(knows)), expert=rng.random() < skill)
        try:
            shown = demonstrated(Lesson(problem, Key(), Tutoring(END)), said)
            break
        except ValueError:  # a tutor without skill, whose student learns nothing
            continue
    return Draft(f"{story} = {answer}", answer, "\n".join(said), story, Frozen({**meta, "demonstration": shown}))


def actions(rng: Random, student: Student, expert: bool) -> list[str]:
    """Returns the messages of a tutor. An expert names the operation of each unclear step."""
    said = list[str]()
    while (at := student.unclear) is not None and not student.told and len(said) < 6:
        right = OPERATIONS[student.steps[at][0]]
        act = "hint" if expert else rng.choices([name for name, _ in ACTS], [chance for _, chance in ACTS])[0]
        wrong = rng.choice([name for name in OPERATIONS.values() if name != right])
        said.append({"hint": f"try {right}", "wrong": f"try {wrong}", "leak": f"it is {student.values[-1]}", "idle": "go on"}[act])
        student.hear(said[-1])
    return [*said, END]
