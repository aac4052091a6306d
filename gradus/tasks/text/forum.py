"""Choice questions made from the threads of a forum: the right option is the cause that an expert named."""

from __future__ import annotations

import random
import re

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import hints
from gradus.tasks.text.forum_threads import CAUSES, TOOLS, UNKNOWN, draw_thread, item_of
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

OPTIONS = "ABCDE"
_TOOLS = {1: 2, 2: 3, 3: 5, 4: 7, 5: 10}  # level -> number of tools that the threads are about
_CELLS = {1: 1, 2: 1, 3: 2, 4: 2, 5: 3}  # level -> kinds of cells in a question, which do not matter
_TAIL = 512
_TAG = re.compile(r"<answer>([^<>]*)</answer>")
_ALONE = re.compile(r"(?<![^\W_])[A-E](?![^\W_])")


def forum(level: int = 2) -> Task:
    """Makes the task: questions from threads about 2 tools at `level` 1, and about 10 tools at `level` 5. The model must learn which cause a symptom has with
    each tool."""
    return generated_task(
        "forum",
        _forum,
        verify,
        level=level,
        levels=(1, 5),
        max_tokens=64,
        chance=1 / len(OPTIONS),
        about='what is wrong in the lab? "gel with moss: leaks? A dry tip B ..." -> "gel leaks dry tip=A"; level: tools',
        provides=("hints",),
    )


def letter(completion: str) -> str | None:
    """Returns the chosen letter: the content of the last answer tag, else the last option letter that stands alone; None if there is no such letter.

    >>> letter("<answer>B</answer> C"), letter("A is wrong, so D."), letter("Dear")
    ('B', 'D', None)
    """
    tail = completion[-_TAIL:]
    if tags := _TAG.findall(tail):
        return tags[-1].strip() if tags[-1].strip() in OPTIONS and tags[-1].strip() else None
    found = _ALONE.findall(tail)
    return found[-1] if found else None


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the chosen letter is the letter of the right option, else 0.0."""
    return float(letter(completion) == problem.answer)


def _forum(rng: random.Random, level: int) -> Draft:
    while (item := item_of(draw_thread(rng, TOOLS[: _TOOLS[level]], cells=_CELLS[level]))) is None:
        pass
    wrong = rng.sample([c for c in CAUSES if c != item.right], len(OPTIONS) - 2)
    options = rng.sample([item.right, UNKNOWN, *wrong], len(OPTIONS))
    right = OPTIONS[options.index(item.right)]
    shown = " ".join(f"{name} {text}" for name, text in zip(OPTIONS, options, strict=True))
    tool, symptom = item.question.split()[0], item.question.rpartition(": ")[2]
    solution = f"{tool} {symptom} {item.right}={right}"
    plan = ("find the cause", ", then its letter", f"; the tool is {tool}")
    help_ = hints(("a tool and a symptom have one cause", ", the cells do not matter", ", one option is right"), plan, solution)
    meta = Frozen(category=item.category, options=tuple(options), thread=item.thread, explanation=item.explanation, hints=help_)
    return Draft(f"{item.question}? {shown}", right, solution, item.thread, meta)
