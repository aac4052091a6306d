"""The task masked_text: in short passages, some words follow from the other words, and some words are random. One role hides a span of words, and the
other role finds this span."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from gradus.tasks.generated import Draft, Generated, generated_task
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

MASK = "[MASK]"
MOST_WORDS = 8  # words of a span
STOP_WORDS = frozenset(["a", "and", "has", "is", "of", "or", "so", "the", "to", "after", "before", "both", "not", "but"])
NAMES = ("ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal")
MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
OPPOSITES = (("hot", "cold"), ("big", "small"), ("old", "new"), ("wet", "dry"), ("near", "far"), ("open", "shut"))

_SIGNS = str.maketrans("", "", ".,;:!?'\"")

Role = Literal["hide", "fill", "both"]


def masked_text(level: int = 2, role: Role = "hide") -> Task:
    """Makes the task: a passage of `level` sentences, 1 to 4, with words that follow from the rest and one random code.

    `role` "hide": training problems show a passage, and an answer is "=" and a span to hide. "fill": training problems show a passage in which [MASK]
    replaces a random word, and the answer is "=" and the replaced word. "both": half of the problems are of each kind. In held-out problems, the hidden word
    follows from the rest, if the passage has such a word. A span has 1 to 8 words, occurs once in the passage, and does not consist of stop words only.
    `proposed` makes a new problem from a proposed span. In the new problem this span is hidden. Raises: UserError for an unknown role.
    """
    if role not in ("hide", "fill", "both"):
        raise UserError(f'task masked_text: `role` is "{role}"; give "hide", "fill" or "both"')
    task = generated_task(
        "masked_text",
        partial(_masked, role=role),
        verify,
        level=level,
        levels=(1, 4),
        max_tokens=24,
        chance=0.0,
        about='words hidden in passages: "fill ann has 2 and bob has 3 so both have [MASK]" -> "=5"; level: sentences',
    )
    assert isinstance(task.held_out, Generated)
    return replace(task, held_out=replace(task.held_out, make=partial(_masked, role="follows")), proposed=proposed)


def _masked(rng: random.Random, level: int, role: str) -> Draft:
    kinds = [KINDS[i % len(KINDS)] for i in range(level)]
    sentences = [kind(rng) for kind in kinds]
    code = "".join(rng.choice("0123456789") for _ in range(4))
    texts = [text for text, _ in sentences]
    texts.insert(rng.randint(0, len(texts)), f"code {code}")
    passage = ". ".join(texts) + "."
    follows = [span for _, span in sentences if is_span(passage, span)]
    words = [w for w in dict.fromkeys(passage.replace(".", "").split()) if is_span(passage, w)]
    meta = Frozen(passage=passage, follows=tuple(follows), random=code)
    if role == "hide" or (role == "both" and rng.random() < 0.5):
        span = rng.choice(words)
        return Draft(f"hide {passage}", span, f"={span}", passage, Frozen(category="hide", **meta))
    span = rng.choice(follows or words) if role == "follows" else rng.choice(words)
    return Draft(question(passage, span), span, f"={span}", passage, Frozen(category="fill", **meta))


def _sum(rng: random.Random) -> tuple[str, str]:
    (one, two), (a, b) = rng.sample(NAMES, 2), (rng.randint(1, 9), rng.randint(1, 9))
    return f"{one} has {a} and {two} has {b} so both have {a + b}", str(a + b)


def _month(rng: random.Random) -> tuple[str, str]:
    at = rng.randrange(len(MONTHS) - 1)
    return f"{MONTHS[at + 1]} is after {MONTHS[at]}", MONTHS[at + 1]


def _opposite(rng: random.Random) -> tuple[str, str]:
    one, other = rng.choice(OPPOSITES)
    return f"not {one} but {other}", other


def _relation(rng: random.Random) -> tuple[str, str]:
    one, two = rng.sample(NAMES, 2)
    role, back = rng.choice((("parent", "child"), ("teacher", "pupil"), ("host", "visitor")))
    return f"{one} is {role} of {two} so {two} is {back} of {one}", back


KINDS: tuple[Callable[[random.Random], tuple[str, str]], ...] = (_sum, _month, _opposite, _relation)
"""Each function makes a sentence, and names the word that follows from the other words of the sentence."""


def is_span(passage: str, span: str) -> bool:
    """Whether a span can be hidden: 1 to 8 words that occur once in the passage, as whole words, and are not only stop words.

    >>> [is_span("may is after april. code 41.", span) for span in ("april", "is", "ay", "code 41", "june")]
    [True, False, False, True, False]
    """
    words = span.split()
    if not 1 <= len(words) <= MOST_WORDS or set(words) <= STOP_WORDS or "." in span:
        return False
    return f" {passage.replace('.', ' .')} ".count(f" {' '.join(words)} ") == 1 and passage.count(" ".join(words)) == 1


def question(passage: str, span: str) -> str:
    """Returns the text of the problem that asks for this span."""
    return f"fill {passage.replace(' '.join(span.split()), MASK)}"


def said(text: str) -> str:
    """Returns the text after the last "=", in lower case and without the signs .,;:!?'" and repeated spaces. Only the last 100 characters are read."""
    tail = text[-100:].rpartition("=")
    return " ".join(tail[2].lower().translate(_SIGNS).split()) if tail[1] else ""


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns 1.0 for a right answer, else 0.0. A proposed span is right if it can be hidden. A word is right if it is the hidden word, apart from case and
    punctuation."""
    text = said(completion)
    return float(is_span(str(problem.meta["passage"]), text) if problem.meta["category"] == "hide" else text == said(f"={problem.answer}"))


def proposed(problem: Problem, text: str) -> Problem | None:
    """Returns the problem that a text proposes: to fill in the proposed span. Returns None if the span cannot be hidden."""
    passage, span = str(problem.meta["passage"]), said(text)
    if not is_span(passage, span):
        return None
    meta = Frozen({**problem.meta, "category": "fill", "solution": f"={span}"})
    name = f"{problem.id}-{span.replace(' ', '_')}"
    return replace(problem, id=name, messages=({"role": "user", "content": question(passage, span)},), answer=span, meta=meta)


