"""The task dates: made-up events whose months follow from other events, with four kinds of question."""

from __future__ import annotations

import random
import re
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, ending
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

EVENTS = ("fair", "vote", "storm", "race", "feast", "strike", "launch", "match", "trial", "flood")
KINDS = ("inference", "difference", "ordering", "completion")
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_TAIL = 200  # characters of a completion that are read


def dates(level: int = 2, kinds: str = "all") -> Task:
    """Makes the task. The prompt gives the month of one event. For each other event the prompt tells how many months later or earlier this event is
    than another event. `level` 1 to 4: gaps up to 6, 18, 40 and 90; at level 3 one event of the text does not matter, at level 4 two events.

    `kinds`: "all" or a list of kinds. inference: the month of an event. difference: two months and the months between them. ordering: three months and the
    order of the events, such as 2-1-3. completion: a month, and the year or number of the month that a text hides. The answer is in the last `<answer>` tag,
    or after the last "="; spaces separate its parts. `meta["parts"]` has the right parts.
    """
    return generated_task(
        "dates", partial(_dates, kinds=chosen("dates", kinds, KINDS)), verify, level=level, levels=(1, 4), max_tokens=64, chance=0.0,
        about='months of made-up events: "fair 2003-05 vote fair+14 inference vote" -> "<answer>2004-07</answer>"; level: months between events',
    )  # fmt: skip


def month(number: int) -> str:
    """Returns the month with this number, counted from January of the year 0.

    >>> month(2003 * 12 + 4)
    '2003-05'
    """
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


def _dates(rng: random.Random, level: int, kinds: tuple[str, ...]) -> Draft:
    kind, most = rng.choice(kinds), (6, 18, 40, 90)[level - 1]
    names = rng.sample(EVENTS, 3 if kind == "ordering" else 2)
    first = rng.randint(1960 * 12, 2020 * 12)
    gaps = [rng.choice((-1, 1)) * rng.randint(max(1, most // 3), most) for _ in names[1:]]
    months = [first, *(first + gap for gap in gaps)]
    told = f"{names[0]} {month(first)} " + " ".join(f"{n} {names[0]}{gap:+d}" for n, gap in zip(names[1:], gaps, strict=True))
    others = rng.sample([name for name in EVENTS if name not in names], max(0, level - 2))
    told += "".join(f" {name} {names[0]}{rng.choice((-1, 1)) * rng.randint(1, most):+d}" for name in others)
    said = [month(m) for m in months]
    parts: tuple[str, ...]
    if kind == "inference":
        asked, parts = names[1], (said[1],)
    elif kind == "difference":
        asked, parts = f"{names[0]} {names[1]}", (said[0], said[1], str(abs(months[1] - months[0])))
    elif kind == "ordering":
        order = sorted(range(3), key=lambda i: months[i])
        asked, parts = " ".join(names), (*said, "-".join(str(i + 1) for i in order))
    else:
        hides = rng.choice(("year", "month"))
        asked, parts = f"{names[1]} {hides}", (said[1], said[1][:4] if hides == "year" else str(int(said[1][5:])))
    answer = " ".join(parts)
    meta = Frozen(category=kind, parts=parts, hides=asked.split()[-1] if kind == "completion" else "")
    return Draft(f"{told} {kind} {asked}", answer, f"<answer>{answer}</answer>", f"{told} {kind} {asked}", meta)


def verify(problem: Problem, completion: str) -> Outcome:
    """1.0 if the last `<answer>` tag, or without a tag the text after the last "=", is the answer; else 0.0."""
    found = _TAG.findall(completion[-_TAIL:])
    said = found[-1] if found else ending(completion, _TAIL)
    return float(said is not None and " ".join(said.split()) == str(problem.answer))
