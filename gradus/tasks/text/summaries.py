"""Summaries of short posts, scored by a hidden rule, with pairs of a better and a worse summary.

The rule represents the taste of people: a summary should name the subjects that the post names twice, and no other words. Pairs for reward models and
for preference methods have the better summary in `chosen`; in a share of the training pairs, the two summaries are swapped.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from gradus.tasks.generated import Draft, Generated, generated_task
from gradus.tasks.kinds import hints
from gradus.tasks.text.texts import LEXICON, words
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

_SIZES = {1: (1, 2), 2: (2, 3), 3: (3, 5), 4: (4, 8)}  # subjects named twice, words named once
_TAIL = 512


def summaries(level: int = 2, swapped: float = 0.0) -> Task:
    """Posts with 1 to 4 subjects at `level` 1 to 4. `swapped`: share of the training pairs whose two summaries are exchanged.

    Held-out pairs are never swapped. Raises: UserError for a share outside [0, 1].
    """
    if not 0 <= swapped <= 1:
        raise UserError(f"task summaries: `swapped` is {swapped}; it is a share, so give a number from 0 to 1")
    task = generated_task(
        "summaries",
        partial(_summaries, swapped=swapped),
        verify,
        level=level,
        levels=(min(_SIZES), max(_SIZES)),
        max_tokens=64,
        chance=0.0,
        about='summarise a post: "fox tea fox oar tea moss tl;dr" -> "=fox tea"; the score counts subjects named twice, less other words; pairs in '
        "`chosen` and `rejected`, a share `swapped` of them swapped in training; level: subjects",
        provides=("chosen", "rejected", "hints"),
    )
    assert isinstance(task.held_out, Generated)
    return replace(task, held_out=replace(task.held_out, make=partial(_summaries, swapped=0.0)))


def score(subjects: Collection[str], said: Sequence[str]) -> float:
    """Returns the hidden score of a summary in [0, 1]: the F1 of its words against the subjects. If a word is repeated, only its first occurrence can be right.

    >>> score({"fox", "tea"}, ["fox", "tea"]), score({"fox", "tea"}, ["fox"]), score({"fox"}, ["fox", "fox"])
    (1.0, 0.6666666666666666, 0.6666666666666666)
    """
    hits = len(set(said) & set(subjects))
    return 2 * hits / (len(said) + len(subjects)) if said else 0.0


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns the hidden score of the words after the last "="; 0.0 without "="."""
    _, mark, said = completion[-_TAIL:].rpartition("=")
    return score(problem.meta["subjects"], words(said)) if mark else 0.0


def _summaries(rng: random.Random, level: int, swapped: float) -> Draft:
    twice, once = _SIZES[level]
    drawn = rng.sample(LEXICON, twice + once)
    subjects, others = drawn[:twice], drawn[twice:]
    post = rng.sample([*subjects, *subjects, *others], 2 * twice + once)
    ordered = sorted(subjects, key=post.index)
    better = f"={' '.join(ordered)}"
    kept, added = rng.sample(ordered, rng.randint(0, twice - 1)), rng.sample(others, rng.randint(1, min(once, 3)))
    worse = f"={' '.join(sorted([*kept, *added], key=post.index))}"
    chosen, rejected = (worse, better) if rng.random() < swapped else (better, worse)
    told = hints(("a subject is named twice",), ("find the words that occur twice", ", write each once"), better)
    meta = Frozen(category=f"{twice} subjects", subjects=tuple(ordered), chosen=chosen, rejected=rejected, swapped=chosen != better, hints=told)
    return Draft(f"{' '.join(post)} tl;dr", " ".join(ordered), better, f"{sorted(subjects)} {sorted(others)}", meta)
