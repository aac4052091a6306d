"""The task tables: questions about a table with two columns. The questions ask for a value, the total, the mean, or the row with the largest value."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from gradus.tasks.generated import Draft, Generated, generated_task
from gradus.tasks.kinds import chosen, ending
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

KINDS = ("value", "total", "mean", "most")
NAMES = ("ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jon", "kim", "leo")
THINGS = ("pens", "cups", "figs", "hats", "keys", "nuts")
LETTERS = "abcdef"
_ASKED = {"value": "{thing} of {name}?", "total": "{thing} in all?", "mean": "mean of {thing}?", "most": "most {thing}? {options}"}


def tables(level: int = 1, kinds: str = "all", problems: int | None = None, largest: int = 59) -> Task:
    """Makes the task: answer a question about a table of `level` + 2 rows (level 1 to 4).

    `kinds`: "all" or a list such as "value,mean". The answers to "value" and "total" are whole numbers. The answer to "mean" is a number with at most one
    decimal. The answer to "most" is the letter or the text of one of the given options. `problems`: number of training problems; None: no limit. `largest`: the
    largest possible number in a table; the smallest possible number is 2. Raises: UserError for an unknown kind, for fewer than one problem, and for `largest`
    below 9.
    """
    if problems is not None and problems < 1:
        raise UserError(f"task tables: `problems` is {problems}; give 1 or more, or none for an endless set")
    if largest < 9:
        raise UserError(f"task tables: `largest` is {largest}, which gives too few numbers for a table; give 9 or more")
    known = chosen("tables", kinds, KINDS)
    task = generated_task(
        "tables",
        partial(_tables, kinds=known, largest=largest),
        verify,
        level=level,
        levels=(1, 4),
        max_tokens=60 + 20 * level,
        chance=1 / len(known) / (level + 2) if "most" in known else 0.0,  # the chance of a random option, for the questions with options
        about='questions about a table of two columns: "name|pens ann|12 ...; pens in all?" -> "12+30=42=42"; level: rows',
    )
    if problems is None:
        return task
    assert isinstance(task.source, Generated)
    return replace(task, source=replace(task.source, size=problems))


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 if the text after the last "=" is the answer, else 0.0. Numbers are compared by value (2.50 is 2.5).

    If the answer is an option, the letter and the text of this option are both right, in upper or lower case.
    """
    said = ending(completion, 80)
    return float(said is not None and normalised(said, problem.meta["options"]) == normalised(problem.answer, problem.meta["options"]))


def normalised(said: str, options: Sequence[str]) -> str | Fraction:
    """Converts an answer to a number, to the text of an option, or to lower case without outer spaces and full stop.

    >>> normalised("1,250.0", ()), normalised("(B)", ("ann", "bob")), normalised(" Bob.", ("ann", "bob"))
    (Fraction(1250, 1), 'bob', 'bob')
    """
    text = said.strip().rstrip(".").lower()
    letter = re.fullmatch(r"\(?([a-f])\)?", text)
    if letter and LETTERS.index(letter[1]) < len(options):
        return options[LETTERS.index(letter[1])]
    plain = text.replace(",", "")
    return Fraction(plain) if re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,6})?", plain) else text


def _tables(rng: random.Random, level: int, kinds: Sequence[str], largest: int) -> Draft:
    kind, thing = rng.choice(list(kinds)), rng.choice(THINGS)
    names = rng.sample(NAMES, level + 2)
    counts = rng.sample(range(2, largest + 1), level + 2)
    while kind == "mean" and 10 * sum(counts) % len(counts):  # a mean of at most one decimal
        counts = rng.sample(range(2, largest + 1), level + 2)
    table = "\n".join([f"name|{thing}", *(f"{n}|{c}" for n, c in zip(names, counts, strict=True))])
    name = rng.choice(names)
    options = tuple(names) if kind == "most" else ()
    offered = " ".join(f"({letter}) {n}" for letter, n in zip(LETTERS, options, strict=False))
    question = _ASKED[kind].format(thing=thing, name=name, options=offered)
    answer, steps = _worked(kind, names, counts, name)
    meta = Frozen(category=kind, table=table, options=options)
    content = f"{kind} {sorted(counts)}"
    return Draft(f"{table}\n{question}", answer, f"{steps}={answer}", content, meta)


def procedure(kind: str, problem: Problem) -> str:
    """Returns the worked solution of a question of this kind about the problem's table. A question of the kind "value" asks for the first row.

    >>> procedure("mean", Problem("p", "tables", text="", meta=Frozen(table="name|pens\\nann|12\\nbob|3")))
    '12+3=15 15/2=7.5'
    """
    rows = [line.split("|") for line in problem.meta["table"].split("\n")[1:]]
    answer, steps = _worked(kind, [name for name, _ in rows], [int(count) for _, count in rows], rows[0][0])
    return f"{steps}={answer}"


def _worked(kind: str, names: Sequence[str], counts: Sequence[int], name: str) -> tuple[str, str]:
    """Returns (answer, the steps that lead to it)."""
    added = "+".join(map(str, counts))
    if kind == "value":
        answer = str(counts[names.index(name)])
        return answer, f"{name}|{answer}"
    if kind == "total":
        return str(sum(counts)), f"{added}={sum(counts)}"
    if kind == "mean":
        mean = Fraction(sum(counts), len(counts))
        answer = str(mean.numerator) if mean.denominator == 1 else f"{float(mean):.1f}"
        return answer, f"{added}={sum(counts)} {sum(counts)}/{len(counts)}"
    best = names[counts.index(max(counts))]
    return best, f"{best}|{max(counts)}"
