"""Checkable instructions: write one text that meets several constraints. Every constraint is checked exactly."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, hints
from gradus.tasks.text.constraints import CONSTRAINTS, TELLING, holds
from gradus.tasks.text.texts import LEXICON, Lines, words, written
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

_LEVELS = {  # constraints, words, largest number of lines
    1: (1, (2, 4), 1),
    2: (3, (3, 5), 1),
    3: (4, (4, 7), 1),
    4: (3, (8, 15), 3),
    5: (5, (10, 20), 4),
    6: (7, (15, 30), 5),
    7: (9, (20, 40), 6),
    8: (12, (30, 60), 8),
}
_TRIES = 40  # texts that are tried before a shorter text, or fewer constraints, is accepted
_IN_FULL = 4  # from this level on, constraints are written as sentences
_TAIL = 4096  # characters read at the end of a completion; a longer completion without "=" in this part meets no constraint


def instructions(level: int = 2, kinds: str = "all", partial: bool = False) -> Task:
    """Makes the task: write a text of two to sixty words that meets one to twelve constraints, at `level` 1 to 8.

    From level 4 on the constraints are written as sentences. `kinds`: "all" or a list of kinds of constraint to draw from, such as
    "words,first,no"; kinds about lines start at level 4. `partial`: whether the reward is the share of the constraints that are met.
    Raises: UserError for an unknown kind, or if no kind of the list names a word or letters of the text.
    """
    names = chosen("instructions", kinds, CONSTRAINTS)
    if not set(names) & set(TELLING):
        raise UserError(f"task instructions: `kinds` is {kinds}; add at least one kind that names a word or letters of the text: {', '.join(TELLING)}")
    return generated_task(
        "instructions",
        functools.partial(_instructions, kinds=names),
        Constraints(partial),
        level=level,
        levels=(1, 8),
        max_tokens={1: 64, 2: 120, 3: 160}.get(level, 256 if level < 6 else 512),
        chance=0.0,
        about='write a text with given properties: "first:sun words:3 no:e" -> "...=sun or ash" (a text without "=" counts as a whole); '
        "level: constraints, in sentences from 4 on",
        provides=("hints", "checklist"),
    )


@dataclass(frozen=True)
class Constraints:
    """A verifier: 1.0 if the text meets every constraint, else 0.0; or, with `partial`, the share of the constraints that the text meets.

    `checklist` gives the constraints of a problem in short form, each with the weight 1. `checks` gives the check of each constraint for judges. `length`
    gives the number of words that a problem asks for; None if the problem asks for no number.
    """

    partial: bool = False

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return share(problem, completion) if self.partial else verify(problem, completion)

    def checklist(self, problem: Problem) -> tuple[tuple[str, float], ...]:
        return tuple((code(kind, value), 1.0) for kind, value in problem.meta["constraints"])

    def length(self, problem: Problem) -> float | None:
        return next((float(value) for kind, value in problem.meta["constraints"] if kind == "words"), None)

    @property
    def checks(self) -> Mapping[str, Callable[[Problem, str], bool]]:
        return Checks()


class Checks(Mapping[str, Callable[[Problem, str], bool]]):
    """Maps a constraint in short form ("words:4") to its check. A constraint that the problem does not have is not met."""

    def __getitem__(self, text: str) -> Callable[[Problem, str], bool]:
        return lambda problem, completion: met(problem, completion).get(text, False)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str)

    def __iter__(self) -> Iterator[str]:
        return iter(CONSTRAINTS)

    def __len__(self) -> int:
        return len(CONSTRAINTS)


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text meets every constraint, else 0.0."""
    return float(all(met(problem, completion).values()))


def share(problem: Problem, completion: str) -> Outcome:
    """Returns the share of the constraints that the text meets."""
    found = met(problem, completion)
    return sum(found.values()) / len(found)


def met(problem: Problem, completion: str) -> dict[str, bool]:
    """Maps each constraint in short form ("words:4") to whether the text meets this constraint. The text is the part after the last "=", or the completion."""
    text = completion[-_TAIL:].rpartition("=")[2].strip()
    readable = "=" in completion[-_TAIL:] or len(completion) <= _TAIL
    rules: Sequence[tuple[str, Any]] = problem.meta["constraints"]
    return {code(kind, value): readable and holds(kind, value, text) for kind, value in rules}


def code(kind: str, value: Any) -> str:
    """Writes a constraint in short form, such as "words:4" or "letter:e2"."""
    return CONSTRAINTS[kind].code.format(value)


def sentence(kind: str, value: Any) -> str:
    return CONSTRAINTS[kind].sentence.format(*str(value).split(","))


def composed(rng: random.Random, kinds: Sequence[str], count: int, size: tuple[int, int], most: int) -> tuple[str, dict[str, Any]]:
    """Draws a text and `count` constraints that the text meets, or fewer if the kinds do not give enough constraints.

    At least one of the constraints names a word or letters of the text.
    """
    attempt = 0
    while True:
        attempt += 1
        first = rng.choice([kind for kind in TELLING if kind in kinds])
        order = [first, *rng.sample(list(kinds), len(kinds))]
        shaping = _compatible(order, count, most)
        # some kinds fit only short texts, such as the first letters of all words
        text = written(_shaped(rng, shaping, size if attempt <= _TRIES else (3, 8), most))
        values = _fitting(rng, [*shaping, *order], shaping, text, count)
        if set(values) & set(TELLING) and (len(values) == count or attempt > _TRIES):
            return text, values


def _compatible(order: Sequence[str], count: int, most: int) -> list[str]:
    """Returns the first `count` kinds that belong to different groups. If the text has only one line, kinds about lines are left out."""
    picked: list[str] = []
    for kind in order:
        if len(picked) < count and not _clashes(kind, picked) and (most > 1 or not CONSTRAINTS[kind].lines):
            picked.append(kind)
    return picked


def _clashes(kind: str, others: Iterable[str]) -> bool:
    """Returns whether `others` contains this kind or another kind of its group."""
    group = CONSTRAINTS[kind].group
    return any(kind == other or (group and group == CONSTRAINTS[other].group) for other in others)


def _shaped(rng: random.Random, kinds: Sequence[str], size: tuple[int, int], most: int) -> Lines:
    """Draws random words in lines and changes them with the shapes of the kinds, in the order of CONSTRAINTS."""
    count = rng.randint(*size)
    several = any(CONSTRAINTS[kind].lines for kind in kinds)
    rows = min(rng.randint(2, most), count) if several else 1
    cuts = [round(count * i / rows) for i in range(rows + 1)]
    made = [[rng.choice(LEXICON) for _ in range(a, b)] for a, b in pairwise(cuts)]
    for kind, constraint in CONSTRAINTS.items():
        if kind in kinds and constraint.shape:
            made = constraint.shape(rng, made)
    return made


def _fitting(rng: random.Random, kinds: Sequence[str], shaping: Sequence[str], text: str, count: int) -> dict[str, Any]:
    """Returns up to `count` kinds with values that the text meets. A kind that has a shape or is about lines is used only if `shaping` contains it."""
    values: dict[str, Any] = {}
    for kind in kinds:
        constraint = CONSTRAINTS[kind]
        if len(values) == count or _clashes(kind, values) or ((constraint.shape or constraint.lines) and kind not in shaping):
            continue
        value = constraint.value(rng, text)
        if value is not None and holds(kind, value, text):
            values[kind] = value
    return values


def _instructions(rng: random.Random, level: int, kinds: Sequence[str]) -> Draft:
    count, size, most = _LEVELS[level]
    text, values = composed(rng, kinds, count, size, most)
    rules = tuple(rng.sample(list(values.items()), len(values)))
    codes = [code(kind, value) for kind, value in rules]
    if level < _IN_FULL:
        question = " ".join(codes)
        solution = f"{' '.join(f'{i + 1}:{word}' for i, word in enumerate(text.split()))}={text}"
    else:
        question = "\n".join(["Write a text:", *(f"- {sentence(kind, value)}" for kind, value in rules)])
        solution = text
    meta: Mapping[str, Any] = Frozen(
        constraints=rules,
        category=str(len(rules)),
        hints=hints(
            ("every word of the list counts", ", words stand between spaces", ", nothing else is asked for"),
            (f"{len(words(text))} words", f" will do, the first being {words(text)[0]}", f", the last {words(text)[-1]}"),
            solution,
        ),
    )
    return Draft(question, text, solution, " ".join(sorted(codes)), meta)
