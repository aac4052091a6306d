"""The task segments: predict the next segments, or a hidden segment, of documents of worked sums."""

from __future__ import annotations

import random
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import chosen, ending
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

NAMES = ("ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal")
KINDS = ("next", "gap")
MASK = "[MASK]"


def segments(level: int = 2, kinds: str = "all") -> Task:
    """Makes the task. A document is a running sum in sentences, such as "ann has 3. ann gets 4. ann has 7". A higher `level` (1 to 4) has more sums and
    larger numbers.

    `kinds`: "all", "next" (the prompt shows the beginning, and the reference is the rest of the document) or "gap" (one sentence is hidden, and the prompt
    shows the text after this sentence). The first segment of the reference follows from the prompt. The answer is the text after the last "=". The answer is
    right if it equals the first segment of the reference. `meta["reference"]` has the next segments.
    """
    return generated_task(
        "segments", partial(_segments, kinds=chosen("segments", kinds, KINDS)), verify, level=level, levels=(1, 4), max_tokens=48, chance=0.0,
        about='segments of running sums: "next ann has 3. ann gets 4." -> "=ann has 7"; level: sums and size of numbers',
    )  # fmt: skip


def document(rng: random.Random, sums: int, most: int) -> list[str]:
    """Returns the sentences of a running sum."""
    name, total = rng.choice(NAMES), rng.randint(1, most)
    out = [f"{name} has {total}"]
    for _ in range(sums):
        change = rng.randint(1, most)
        gains = total < change or rng.random() < 0.6
        total += change if gains else -change
        out += [f"{name} {'gets' if gains else 'gives'} {change}", f"{name} has {total}"]
    return out


def _segments(rng: random.Random, level: int, kinds: tuple[str, ...]) -> Draft:
    told, kind = document(rng, level + 1, (9, 20, 40, 80)[level - 1]), rng.choice(kinds)
    at = 2 * rng.randint(1, level)
    if kind == "next":
        question, reference = f"next {'. '.join(told[:at])}.", told[at:]
    else:
        at -= rng.randint(0, 1)
        question, reference = f"gap {'. '.join([*told[:at], MASK, *told[at + 1 : at + 2]])}.", told[at : at + 2]
    meta = Frozen(category=kind, reference=". ".join(reference[:3]))
    return Draft(question, reference[0], f"={reference[0]}", question, meta)


def verify(problem: Problem, completion: str) -> Outcome:
    """1.0 if the text after the last "=" is the first segment of the reference, with or without a full stop; else 0.0."""
    said = ending(completion, 200)
    return float(said is not None and said.rstrip(". ") == str(problem.answer))
