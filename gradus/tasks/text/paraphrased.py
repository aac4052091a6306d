"""The task paraphrased: one question in several wordings. A search by common words finds other texts for other wordings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import verify_exact
from gradus.types import Frozen
from gradus.types.parts import Task

NAMES = ("ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal", "ida", "jon", "kim", "leo")
TOWNS = ("oslo", "rome", "bern", "riga", "lima", "cork", "bari", "lyon", "york", "graz", "nice", "bonn")
WORDINGS = ("where does {} live", "home of {}", "which town has {}", "{} lives in which place", "name the town of {}", "town where {} stays")
TEXTS = ("{0} lives in {1}", "home of {0} is {1}", "{1} is the town of {0}")


def paraphrased(level: int = 2, wordings: int = 4) -> Task:
    """Makes the task: `wordings` wordings, 2 to 6, of the question where a person lives. `level` 1 to 4: 2 to 5 persons.

    The prompt of each wording has the two texts that share most words with the wording. Equally good texts stay in their order. Each person has one
    text, in one of three forms. So some wordings find the right text, and others do not. `meta["paraphrases"]` has the prompts of all wordings, the
    problem's own first. `meta["documents"]` has the texts that each wording finds. The answer is the town after the last "=".
    """
    return generated_task(
        "paraphrased", partial(_paraphrased, wordings=wordings), verify_exact, level=level, levels=(1, 4), max_tokens=24, chance=0.1,
        about='one question in several wordings: "ann lives in oslo. home of bob is rome; home of ann" -> "=oslo"; level: persons',
    )  # fmt: skip


def found(question: str, texts: Sequence[str], count: int = 2) -> list[str]:
    """Returns the `count` texts that share most words with the question. Equally good texts stay in their order.

    >>> found("home of ann", ["bob in rome", "home of bob", "ann in oslo"])
    ['home of bob', 'ann in oslo']
    """
    words = set(question.split())
    return sorted(texts, key=lambda text: -len(words & set(text.split())))[:count]


def _paraphrased(rng: random.Random, level: int, wordings: int) -> Draft:
    names, towns = rng.sample(NAMES, level + 1), rng.sample(TOWNS, level + 1)
    texts = [rng.choice(TEXTS).format(name, town) for name, town in zip(names, towns, strict=True)]
    at = rng.randrange(len(names))
    shuffled = rng.sample(texts, len(texts))
    asked = [w.format(names[at]) for w in rng.sample(WORDINGS, wordings)]
    documents = tuple(tuple(found(question, shuffled)) for question in asked)
    prompts = tuple(f"{'. '.join(seen)}; {question}" for seen, question in zip(documents, asked, strict=True))
    meta = Frozen(category=f"{level + 1} persons", paraphrases=prompts, documents=documents)
    return Draft(prompts[0], towns[at], f"={towns[at]}", f"{sorted(texts)} {names[at]}", meta)
