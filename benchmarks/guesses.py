"""A task for start models that rarely use a tool: the demonstrations of a task with tools, but most of them answer at once with a name of another problem."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from gradus.tasks.generated import Draft, Generated
from gradus.tasks.text.search_qa import search_qa
from gradus.types import Frozen
from gradus.types.parts import Task


def guesses(level: int = 1, tools: float = 0.2, people: int = 800) -> Task:
    """Makes the task search_qa whose demonstrations use the tools with probability `tools`, and otherwise guess."""
    task = search_qa(level, people=people, instruction=False)
    plain = task.source
    assert isinstance(plain, Generated)

    def make(rng: Random, at: int) -> Draft:
        draft, other = plain.make(rng, at), plain.make(rng, at)
        if rng.random() < tools:
            return draft
        said = f"answer: {other.answer}"
        return replace(draft, solution=said, meta=Frozen({**draft.meta, "demonstration": [("", said)]}))

    source = replace(plain, make=make)
    return replace(task, source=source, held_out=replace(source, held_out=True))
