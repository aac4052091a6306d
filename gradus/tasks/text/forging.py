"""The task forging: invent a problem of composed string functions from cards that name functions."""

from __future__ import annotations

import random
import re

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.text.string_ops import FUNCTIONS, made_up_word
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

_PARTS = re.compile(r"<rationale>(.*?)</rationale>\s*<problem>(.*?)</problem>", re.DOTALL)
_CALLS = re.compile(r"((?:[a-z]+\()+)([a-z]{2,8})(\)+)")
_LONGEST = 400  # characters of a completion that are read


def forging(level: int = 5) -> Task:
    """Makes the task: invent a problem for the task string_ops from `level` cards, 2 to 6, and a word, as in "cards bako tail upper".

    An answer has a rationale, with numbered steps, and a problem: `<rationale>Step 1 tail</rationale><problem>tail(bako)</problem>`. The verdict is 1 if the
    answer has both parts, and its problem applies one or more functions of the cards to a word of 2 to 8 letters; else 0. The worked solutions use one
    to three cards.
    """
    return generated_task(
        "forging",
        _forging,
        verify,
        level=level,
        levels=(2, 6),
        max_tokens=200,
        chance=0.0,
        about='problems invented from cards: "cards bako tail upper" -> "<rationale>Step 1 tail</rationale><problem>tail(bako)</problem>"; level: cards',
    )


def _forging(rng: random.Random, level: int) -> Draft:
    cards = rng.sample(sorted(FUNCTIONS), level)
    word = made_up_word(rng)
    used = rng.sample(cards, rng.randint(1, min(3, level)))
    problem, steps = word, []
    for number, card in enumerate(used, 1):
        problem = f"{card}({problem})"
        steps.append(f"Step {number} {card}")
    text = f"<rationale>{' '.join(steps)}</rationale><problem>{problem}</problem>"
    return Draft(f"cards {word} {' '.join(cards)}", text, text, " ".join([word, *sorted(cards)]), Frozen(category="forging", cards=tuple(cards)))


def functions_of(problem: str) -> tuple[str, ...] | None:
    """Returns the functions of a problem such as "tail(upper(bako))", from the outermost to the innermost; None if the text is no such problem.

    >>> functions_of("tail(upper(bako))")
    ('tail', 'upper')
    """
    found = _CALLS.fullmatch(problem.strip())
    if found is None or found[1].count("(") != len(found[3]):
        return None
    names = tuple(found[1].rstrip("(").split("("))
    return names if all(name in FUNCTIONS for name in names) else None


def verify(problem: Problem, completion: str) -> Outcome:
    """1.0 if the completion has a rationale and a problem, and all functions of the problem are on the cards; else 0.0."""
    found = _PARTS.search(completion[:_LONGEST])
    names = functions_of(found[2]) if found else None
    return float(names is not None and set(names) <= set(problem.meta["cards"]))
