"""The task channels: formulas of wireless channels, as choices, with hidden terms, or as a whole."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.maths.formulas_of_channels import equivalent, masked
from gradus.types import Frozen, Outcome, Problem
from gradus.types.answers import boxed
from gradus.types.parts import Task

_TAIL = 400  # characters of a completion that are read
_LETTERS = "bcdfghjkmpqrstuvwxyz"
_SHARES = (0.25, 0.5, 0.75)
_OPTIONS = "ABCDE"

KINDS: Mapping[str, Sequence[str]] = Frozen(
    snr=("{0}", "/", "{1}"),
    sinr=("{0}", "/(", "{1}", "+", "{2}", ")"),
    rate=("{0}", "*log2(", "1+", "{1}", "/", "{2}", ")"),
    loss=("{0}", "*log10(", "{1}", ")", "+", "{2}"),
    link=("{0}", "+", "{1}", "-", "{2}"),
    shift=("{0}", "*", "{1}", "/", "{2}"),
    far=("2*", "{0}", "^2", "/", "{1}"),
    bit=("{0}", "/(", "{1}", "*", "{2}", ")"),
)
"""The name of a formula -> its terms; {0}, {1} and {2} are the symbols of the problem, in the order in which the prompt names them."""
_LEVELS = (("snr", "far"), ("snr", "far", "link", "shift"), ("link", "sinr", "bit", "loss"), ("sinr", "loss", "rate"))


def channels(level: int = 2) -> Task:
    """Makes the task. `level` 1 to 4: from short to long formulas, with more options and more hidden terms. Symbols are random letters.

    A problem names the formula and its symbols, such as "rate b k s". Kinds: "whole" asks for the formula; "fill" shows the formula with a share of
    its terms hidden; "choice" shows `level` + 1 formulas. The answer is the formula, or the letter, in a box or after the last "=". A formula is
    right if it has the right values at five random points. All problems of one formula with the same symbols have the same `source`, and are on the
    same side of the split.
    """
    return generated_task(
        "channels", _channels, verify, level=level, levels=(1, 4), max_tokens=64, chance=0.05,
        about='formulas of wireless channels: "rate b k s: b?1+k?s)" -> "\\boxed{b*log2(1+k/s)}"; level: formulas',
    )  # fmt: skip


def _channels(rng: random.Random, level: int) -> Draft:
    name = rng.choice(_LEVELS[level - 1])
    symbols = rng.sample(_LETTERS, 3)
    terms = [term.format(*symbols) for term in KINDS[name]]
    formula, stem = "".join(terms), f"{name} {' '.join(symbols)}"
    kind = rng.choice(("whole", "fill", "choice"))
    meta = Frozen(category=kind, source=stem, formula=formula)
    if kind == "choice":
        others = rng.sample([n for n in KINDS if n != name], level)
        place = rng.randrange(level + 1)
        shown = ["".join(KINDS[n]).format(*symbols) for n in others]
        shown.insert(place, formula)
        question = f"{stem}? {' '.join(f'{o}:{text}' for o, text in zip(_OPTIONS, shown))}"
        return Draft(question, _OPTIONS[place], f"{formula} \\boxed{{{_OPTIONS[place]}}}", stem, meta)
    if kind == "fill":
        seen, _ = masked(terms, rng.choice(_SHARES[:level]), rng)
        stem_of_question = f"{stem}: {''.join(seen)}"
        return Draft(stem_of_question, formula, f"\\boxed{{{formula}}}", stem, meta)
    return Draft(stem, formula, f"\\boxed{{{formula}}}", stem, meta)


def verify(problem: Problem, completion: str) -> Outcome:
    """1.0 if the last box, or the text after the last "=", is the letter or is equivalent to the formula; else 0.0."""
    tail = completion[-_TAIL:]
    box = boxed(tail)
    said = box if box is not None else tail.rpartition("=")[2].strip() if "=" in tail else None
    if said is None:
        return 0.0
    if problem.meta["category"] == "choice":
        return float(said == problem.answer)
    return float(equivalent(said, str(problem.answer)))
